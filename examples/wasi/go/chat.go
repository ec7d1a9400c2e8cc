// A chat with the library as a WASI module, in Go with wazero.
// SPDX-License-Identifier: MIT
//
//	go run . qsf.wasm MODEL [NAME=VALUE...] <questions.txt      NAME=VALUE: options of answers
//
// One question a line; answers are printed while they are computed.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

var ctx, module = context.Background(), api.Module(nil)

// call copies texts into the module, and ends them with a zero byte.
func call(name string, args ...any) uint32 {
	values := make([]uint64, len(args), len(args)+1)
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			arg = call("malloc", uint32(len(text)+1))
			defer call("free", arg)
			module.Memory().WriteString(arg.(uint32), text+"\x00")
		}
		values[i] = uint64(arg.(uint32))
	}
	results, err := module.ExportedFunction(name).Call(ctx, values...)
	if err != nil {
		log.Fatal(err)
	}
	return uint32(append(results, 0)[0])
}

func text(at uint32) (out string) {
	for b, _ := module.Memory().ReadByte(at); b != 0; b, _ = module.Memory().ReadByte(at) {
		out, at = out+string([]byte{b}), at+1
	}
	return
}

func options(words ...string) string { // NAME=VALUE; a value has no zero byte
	return strings.ReplaceAll(strings.Join(append(words, ""), "\x00"), "=", "\x00")
}

func main() {
	runtime, code := wazero.NewRuntime(ctx), []byte(nil)
	path, err := filepath.Abs(os.Args[2])
	if err == nil {
		code, err = os.ReadFile(os.Args[1])
	}
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	folder := wazero.NewFSConfig().WithReadOnlyDirMount(filepath.Dir(path), "/model")
	config := wazero.NewModuleConfig().WithFSConfig(folder).WithStartFunctions("_initialize")
	if module, err = runtime.InstantiateWithConfig(ctx, code, config); err != nil {
		log.Fatal(err)
	}
	conversation := call("qsf_wasi_open", "/model/"+filepath.Base(path), options("ctx-size=2048"))
	messages := []map[string]string{}
	for in := bufio.NewScanner(os.Stdin); conversation != 0 && in.Scan(); fmt.Println() {
		messages = append(messages, map[string]string{"role": "user", "content": in.Text()})
		list, _ := json.Marshal(messages)
		answer, said := call("qsf_wasi_ask", conversation, string(list), options(os.Args[3:]...)), ""
		for piece := "-"; answer != 0 && piece != ""; said += piece {
			piece = text(call("qsf_wasi_piece", answer))
			fmt.Print(piece)
		}
		call("qsf_flat_free", answer)
		messages = append(messages, map[string]string{"role": "assistant", "content": said})
	}
	if said := text(call("qsf_wasi_error")); said != "" {
		log.Fatal(said)
	}
}
