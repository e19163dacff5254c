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
	return build(buildInfo(path, goos), machine, "")
}

// Linked is a [Program] for Linux that a loader links dynamically.
func Linked(path string, machine elf.Machine, loader string) []byte {
	return build(buildInfo(path, "linux"), machine, loader)
}

func build(info []byte, machine elf.Machine, loader string) []byte {
	var header elf.Header64
	segments := make([]elf.Prog64, 1, 2) //nolint:mnd // with a loader there are two
	if loader != "" {
		segments = segments[:2]
	}
	start := binary.Size(header) + binary.Size(segments)
	offset := start + (alignment-start%alignment)%alignment
	header = elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Phoff: uint64(binary.Size(header)), //nolint:gosec // 64
		Ehsize: uint16(binary.Size(header)), Phentsize: uint16(binary.Size(segments[0])), Phnum: uint16(len(segments)), //nolint:gosec // 64, 56, 2
	}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	segments[0] = elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: uint64(offset), Vaddr: uint64(offset), //nolint:gosec // 176 at most
		Filesz: uint64(len(info)), Memsz: uint64(len(info)), Align: alignment,
	}
	if loader != "" {
		loader += "\x00"
		segments[1] = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: uint64(offset + len(info)), Filesz: uint64(len(loader))} //nolint:gosec // some hundreds
	}
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, header) // a buffer takes every write
	_ = binary.Write(&b, binary.LittleEndian, segments)
	b.Write(make([]byte, offset-b.Len()))
	b.Write(info)
	b.WriteString(loader)
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
