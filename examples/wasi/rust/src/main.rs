//! A chat with the library as a WASI module, in Rust with wasmi.
//! SPDX-License-Identifier: MIT
//!
//!     cargo run --release -- qsf.wasm MODEL [NAME=VALUE...] <questions.txt
//!
//! NAME=VALUE are options of answers. One question a line; answers are printed while they are computed.
use std::{error::Error, io::{stdin, stdout, BufRead, Write}, path::Path};
use wasmi::{Engine, Instance, Linker, Memory, Module, Store, Val};
use wasmi_wasi::{add_to_linker, ambient_authority, Dir, WasiCtx, WasiCtxBuilder};

struct Library { store: Store<WasiCtx>, instance: Instance, memory: Memory }

impl Library {
    /// Texts are copied into the module for the call, and end with a zero byte.
    fn call(&mut self, name: &str, number: Option<u32>, texts: &[&str]) -> u32 {
        let (number, mut places) = (number.map(|n| Val::I32(n as i32)), vec![]);
        let mut args = Vec::from_iter(number);
        for text in texts {
            let at = self.call("malloc", Some(text.len() as u32 + 1), &[]);
            self.memory.write(&mut self.store, at as usize, format!("{text}\0").as_bytes()).expect("memory");
            args.push(Val::I32(at as i32));
            places.push(at);
        }
        let function = self.instance.get_func(&self.store, name).expect(name);
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        function.call(&mut self.store, &args, &mut results).expect(name);
        for at in places { self.call("free", Some(at), &[]); }
        results.first().and_then(Val::i32).unwrap_or(0) as u32
    }
    fn text(&mut self, function: &str, number: Option<u32>) -> String {
        let at = self.call(function, number, &[]) as usize;
        let bytes = self.memory.data(&self.store)[at..].split(|&b| b == 0).next();
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }
}

fn message(role: &str, text: &str) -> String { // in JSON
    let special = |c: char| c < ' ' || c == '"' || c == '\\';
    let escaped = |c: char| if special(c) { format!("\\u{:04x}", c as u32) } else { c.to_string() };
    let text = text.chars().map(escaped).collect::<String>();
    format!("{{\"role\": \"{role}\", \"content\": \"{text}\"}}")
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (engine, path) = (Engine::default(), Path::new(&args[2]).canonicalize()?);
    let folder = Dir::open_ambient_dir(path.parent().unwrap(), ambient_authority())?;
    let wasi = WasiCtxBuilder::new().preopened_dir(folder, "/model")?.build();
    let (mut store, mut linker) = (Store::new(&engine, wasi), Linker::new(&engine));
    add_to_linker(&mut linker, |wasi: &mut WasiCtx| wasi)?;
    let module = Module::new(&engine, std::fs::read(&args[1])?)?;
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    let memory = instance.get_memory(&store, "memory").expect("memory");
    let mut q = Library { store, instance, memory };
    q.call("_initialize", None, &[]);
    let name = format!("/model/{}", path.file_name().unwrap().to_string_lossy());
    let conversation = q.call("qsf_wasi_open", None, &[&name, "ctx-size\x002048\0"]);
    let options: String = args[3..].iter().map(|word| word.replacen('=', "\0", 1) + "\0").collect();
    let mut messages: Vec<String> = vec![];
    for line in stdin().lock().lines().take_while(|_| conversation != 0) {
        messages.push(message("user", &line?));
        let list = format!("[{}]", messages.join(", "));
        let answer = q.call("qsf_wasi_ask", Some(conversation), &[&list, &options]);
        let (mut said, mut piece) = (String::new(), "-".to_string());
        while answer != 0 && !piece.is_empty() {
            piece = q.text("qsf_wasi_piece", Some(answer));
            print!("{piece}");
            stdout().flush()?;
            said += &piece;
        }
        println!();
        q.call("qsf_flat_free", Some(answer), &[]);
        messages.push(message("assistant", &said));
    }
    let error = q.text("qsf_wasi_error", None);
    if error.is_empty() { Ok(()) } else { Err(error.into()) }
}
