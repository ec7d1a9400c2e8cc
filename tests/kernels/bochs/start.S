/* From the processor's first instruction to main in 64-bit mode, with the registers of AVX-512 and
 * AMX enabled.  .rom is the end of a ROM of 4 MB below 4 GB, and copies the rest of it to 1 MB.
 * SPDX-License-Identifier: MIT */
    .section .rom, "ax"
    .code16
rom:
    cli
    lgdtl %cs:rom_gdt_at - rom
    movl %cr0, %eax
    orl $1, %eax                        /* protected mode */
    movl %eax, %cr0
    ljmpl $8, $0xffff0000 + copy - rom
    .code32
copy:
    movw $16, %ax
    movw %ax, %ds
    movw %ax, %es
    movw %ax, %ss
    movl $0xffc00000, %esi
    movl $0x100000, %edi
    movl $0x3f0000 / 4, %ecx
    cld
    rep movsl
    ljmpl $8, $start
    .code16
    .balign 8
rom_gdt:
    .quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff
rom_gdt_at:
    .word 23
    .long 0xffff0000 + rom_gdt - rom
    .org rom + 0xfff0                   /* the first instruction after a reset */
    jmp rom
    .org rom + 0x10000

    .section .start, "ax"
    .code32
start:
    movl $stack_end, %esp
    movl $level3 + 3, level4            /* 1 GB, identity-mapped in pages of 2 MB */
    movl $level2 + 3, level3
    xorl %ecx, %ecx
1:  movl %ecx, %eax
    shll $21, %eax
    orl $0x83, %eax
    movl %eax, level2(, %ecx, 8)
    incl %ecx
    cmpl $512, %ecx
    jb 1b
    movl $level4, %eax
    movl %eax, %cr3
    movl $0x40620, %eax                 /* PAE, OSFXSR, OSXMMEXCPT, OSXSAVE */
    movl %eax, %cr4
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax                    /* long mode */
    wrmsr
    movl $0x80000023, %eax              /* paging, NE, MP, protected mode */
    movl %eax, %cr0
    lgdt gdt_at
    ljmpl $8, $start64
    .code64
start64:
    xorl %ecx, %ecx
    xorl %edx, %edx
    movl $0x600e7, %eax                 /* x87, SSE, AVX, AVX-512, tiles */
    xsetbv
    xorl %ebp, %ebp
    call bare_main
    movw $0x8900, %dx                   /* Bochs ends when it reads this word here */
    leaq shutdown(%rip), %rsi
    movl $8, %ecx
    rep outsb
    hlt
shutdown:
    .ascii "Shutdown"
    .balign 8
gdt:
    .quad 0, 0x00af9a000000ffff, 0x00af92000000ffff
gdt_at:
    .word 23
    .quad gdt

    .bss
    .balign 4096
level4: .skip 4096
level3: .skip 4096
level2: .skip 4096
stack:  .skip 1 << 20
stack_end:

    .section .note.GNU-stack, "", @progbits
