package deploy_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/elftest"
	"github.com/zeroae/zae-limiter-go/store"
)

const path = "github.com/zeroae/zae-limiter-go/cmd/zae-limiter"

// The checksum was recorded: another machine, another hour or another umask gives the same.
func TestTheZipIsTheSameEverywhere(t *testing.T) {
	t.Parallel()
	executable := elftest.Program(path, "linux", elf.EM_AARCH64)
	a, err := deploy.NewArtefact(executable)
	if err != nil {
		t.Fatal(err)
	}
	again, err := deploy.NewArtefact(bytes.Clone(executable))
	if err != nil || !bytes.Equal(a.Zip(), again.Zip()) {
		t.Errorf("a second zip differs: %v", err)
	}
	sum := sha256.Sum256(a.Zip())
	const recorded = "bbfa9c0129347ee0474f3ba98fc7bd01803c5b363acfac823b05b5e4dff14ac5"
	if got := hex.EncodeToString(sum[:]); got != recorded || a.SHA256() != got || a.Key() != "functions/"+got+".zip" {
		t.Errorf("the checksum is %s, and the key %s", got, a.Key())
	}
}

func TestTheZipHasTheExecutableAlone(t *testing.T) {
	t.Parallel()
	executable := elftest.Program(path, "linux", elf.EM_X86_64)
	a, err := deploy.NewArtefact(executable)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(a.Zip()), int64(len(a.Zip())))
	if err != nil || len(r.File) != 1 {
		t.Fatalf("%d files: %v", len(r.File), err)
	}
	f := r.File[0]
	content, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(content)
	if err != nil || !bytes.Equal(got, executable) || f.Name != "bootstrap" || f.Mode().String() != "-rwxr-xr-x" {
		t.Errorf("%s has the mode %v and %d bytes: %v", f.Name, f.Mode(), len(got), err)
	}
	if a.Architecture() != deploy.AMD64 || a.Executable() != len(executable) {
		t.Errorf("it is for %s, of %d bytes", a.Architecture(), a.Executable())
	}
}

func TestAZipComesBack(t *testing.T) {
	t.Parallel()
	a, err := deploy.NewArtefact(elftest.Program(path, "linux", elf.EM_AARCH64))
	if err != nil {
		t.Fatal(err)
	}
	back, err := deploy.ReadArtefact(a.Zip())
	if err != nil || back.Key() != a.Key() || back.Architecture() != deploy.ARM64 {
		t.Errorf("read %v: %v", back, err)
	}
}

func TestWhatLambdaCannotRunIsRefused(t *testing.T) {
	t.Parallel()
	for reason, executable := range map[string][]byte{
		"no executable for Linux":  []byte("#!/bin/sh\n"),
		"a program for macOS":      []byte("\xcf\xfa\xed\xfe\x0c\x00\x00\x01"),
		"a program for Windows":    []byte("MZ\x90\x00"),
		"no such processors":       elftest.Program(path, "linux", elf.EM_RISCV),
		"another operating system": elftest.Program(path, "freebsd", elf.EM_X86_64),
		"not the program":          elftest.Program("example.com/other", "linux", elf.EM_X86_64),
		"which Lambda does not":    elftest.Linked(path, elf.EM_X86_64, "/lib/ld-musl-x86_64.so.1"), // built on Alpine with a C compiler
	} {
		_, err := deploy.NewArtefact(executable)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || bad.Field != "executable" || !strings.Contains(bad.Reason, reason) || !strings.Contains(bad.Reason, "GOOS=linux GOARCH=arm64") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// A program that a C compiler helped to build needs the loader of glibc, which Lambda has.
func TestAProgramLinkedByGlibcIsTaken(t *testing.T) {
	t.Parallel()
	for machine, loader := range map[elf.Machine]string{
		elf.EM_X86_64: "/lib64/ld-linux-x86-64.so.2", elf.EM_AARCH64: "/lib/ld-linux-aarch64.so.1",
	} {
		if _, err := deploy.NewArtefact(elftest.Linked(path, machine, loader)); err != nil {
			t.Errorf("%s: %v", loader, err)
		}
	}
}

func TestABadZipIsRefused(t *testing.T) {
	t.Parallel()
	zipped := func(name string, mode fs.FileMode, content []byte) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(content)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	good := elftest.Program(path, "linux", elf.EM_AARCH64)
	damaged := zipped("bootstrap", 0o755, bytes.Repeat([]byte("abcdefgh"), 64))
	damaged[45] ^= 0xff
	for reason, packed := range map[string][]byte{
		"no zip file":             []byte("PK"),
		"no file bootstrap":       zipped("main", 0o755, good),
		"damaged":                 damaged,
		"no executable for Linux": zipped("bootstrap", 0o755, []byte("text")),
		"the mode -rw-r--r--":     zipped("bootstrap", 0o644, good),
	} {
		_, err := deploy.ReadArtefact(packed)
		bad := (*store.ValidationError)(nil)
		if !errors.As(err, &bad) || !strings.Contains(bad.Reason, reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
