// Package elftest makes executables for tests: files that have the header and the build
// information of a Go program for Linux, and no code.
package elftest

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
)

// Program returns an executable of the package at a path, built for an operating system and
// for a machine. Its header always is that of Linux.
func Program(path, goos string, machine elf.Machine) []byte {
	var b bytes.Buffer
	header, segment := elf.Header64{}, elf.Prog64{}
	offset := uint64(binary.Size(header) + binary.Size(segment)) //nolint:gosec // 120
	offset += -offset % alignment
	info := buildInfo(path, goos)
	header = elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: uint64(binary.Size(header)), //nolint:gosec // 64
		Ehsize: uint16(binary.Size(header)), Phentsize: uint16(binary.Size(segment)), Phnum: 1, //nolint:gosec // 64 and 56
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	segment = elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: offset, Vaddr: offset,
		Filesz: uint64(len(info)), Memsz: uint64(len(info)), Align: alignment,
	}
	_ = binary.Write(&b, binary.LittleEndian, header) // a buffer takes every write
	_ = binary.Write(&b, binary.LittleEndian, segment)
	b.Write(make([]byte, int(offset)-b.Len())) //nolint:gosec // 128
	b.Write(info)
	return b.Bytes()
}

// alignment is that of build information in a file.
const alignment = 16

// buildInfo is what package debug/buildinfo finds: a header, the version of Go, and the
// module's information between two sentinels of 16 bytes.
func buildInfo(path, goos string) []byte {
	const headerBytes, inline = 32, 2
	sentinel := strings.Repeat("-", alignment)
	const magic = "\xff Go buildinf:\x08" // the last byte is the size of a pointer
	b := append([]byte(magic), inline)
	b = append(b, bytes.Repeat([]byte{0}, headerBytes-len(b))...)
	for _, text := range []string{"go1.26", sentinel + "path\t" + path + "\nbuild\tGOOS=" + goos + "\n" + sentinel} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	return append(b, bytes.Repeat([]byte{0}, headerBytes)...)
}
