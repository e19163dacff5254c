package deploy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	// bootstrap is the file that Lambda starts in a custom runtime.
	bootstrap     = "bootstrap"
	bootstrapMode = 0o755
	// everyoneRuns are the permissions that Lambda needs, because it runs the file as a user
	// without a name.
	everyoneRuns = 0o555
	// program ends the path of the package that the functions run.
	program = "/cmd/zae-limiter"
	// maxUnzippedBytes is Lambda's limit.
	maxUnzippedBytes = 250 << 20
	// maxPathBytes is Linux's limit.
	maxPathBytes = 4096
)

// An Artefact is the zip of the functions' code: this program, as a Linux executable.
type Artefact struct {
	zip          []byte
	architecture Architecture
	sum          string
	executable   int
}

// NewArtefact makes the zip of an executable. The same executable gives the same bytes on
// every machine, if one version of Go built the programs that make the zip. An executable
// that Lambda cannot run gives a [*store.ValidationError].
func NewArtefact(executable []byte) (*Artefact, error) {
	architecture, err := inspect(executable)
	if err != nil {
		return nil, err
	}
	packed, err := pack(executable)
	if err != nil {
		return nil, fmt.Errorf("make the zip of the functions: %w", err)
	}
	return newArtefact(packed, architecture, len(executable)), nil
}

// ReadArtefact takes a zip as it is, for example one that lambda-export has written. A zip
// that Lambda cannot run gives a [*store.ValidationError].
func ReadArtefact(packed []byte) (*Artefact, error) {
	const advice = "make one with zae-limiter lambda-export"
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, invalid("zip", "", "it is no zip file: "+advice)
	}
	f, err := r.Open(bootstrap)
	if err != nil {
		return nil, invalid("zip", "", "it has no file bootstrap: "+advice)
	}
	executable, err := io.ReadAll(io.LimitReader(f, maxUnzippedBytes+1))
	info, unread := f.Stat()
	if err = errors.Join(err, unread, f.Close()); err != nil {
		return nil, invalid("zip", "", "its file bootstrap is damaged: "+advice)
	}
	if info.Mode()&everyoneRuns != everyoneRuns {
		return nil, invalid("zip", "", "its file bootstrap has the mode "+info.Mode().String()+", and Lambda cannot run it: "+advice)
	}
	architecture, err := inspect(executable)
	if err != nil {
		return nil, err
	}
	return newArtefact(packed, architecture, len(executable)), nil
}

func newArtefact(packed []byte, architecture Architecture, executable int) *Artefact {
	sum := sha256.Sum256(packed)
	return &Artefact{packed, architecture, hex.EncodeToString(sum[:]), executable}
}

// Zip returns the bytes of the zip. The caller must not change them.
func (a *Artefact) Zip() []byte { return a.zip }

// Architecture is that of the executable.
func (a *Artefact) Architecture() Architecture { return a.architecture }

// SHA256 is the checksum of the zip, in hexadecimal.
func (a *Artefact) SHA256() string { return a.sum }

// Executable is the size of the executable in bytes.
func (a *Artefact) Executable() int { return a.executable }

// Key is the key of the zip in the code bucket. It has the checksum, so other code has
// another key, and uploading the same code again changes nothing.
func (a *Artefact) Key() string { return "functions/" + a.sum + ".zip" }

// pack makes a zip with the executable alone.
func pack(executable []byte) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	h := &zip.FileHeader{Name: bootstrap, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	h.SetMode(bootstrapMode)
	f, err := w.CreateHeader(h)
	if err == nil {
		_, err = f.Write(executable)
	}
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

// inspect checks that Lambda can run an executable, and returns its architecture.
func inspect(executable []byte) (Architecture, error) {
	const build = "take the released program for Linux and arm64 or amd64, or build it: with the environment GOOS=linux GOARCH=arm64 CGO_ENABLED=0, " +
		"run go install github.com/zeroae/zae-limiter-go/cmd/zae-limiter@VERSION, which leaves it in bin/linux_arm64 of $(go env GOPATH)"
	if len(executable) > maxUnzippedBytes {
		return "", invalid("executable", "", fmt.Sprintf("it has %d bytes, and Lambda takes %d: build it with -ldflags=-s", len(executable), maxUnzippedBytes))
	}
	file, err := elf.NewFile(bytes.NewReader(executable))
	if err != nil {
		return "", invalid("executable", "", "it is "+kindOf(executable)+", and Lambda runs Linux: "+build)
	}
	var architecture Architecture
	switch file.Machine {
	case elf.EM_AARCH64:
		architecture = ARM64
	case elf.EM_X86_64:
		architecture = AMD64
	default:
		return "", invalid("executable", file.Machine.String(), "Lambda has no such processors: "+build)
	}
	info, err := buildinfo.Read(bytes.NewReader(executable))
	if err != nil || !strings.HasSuffix(info.Path, program) {
		return "", invalid("executable", "", "it is not the program zae-limiter: "+build)
	}
	for _, s := range info.Settings {
		if s.Key == "GOOS" && s.Value != "linux" {
			return "", invalid("executable", s.Value, "it is for another operating system than Linux: "+build)
		}
	}
	if l := loader(file); l != "" && !slices.Contains(loaders, l) {
		return "", invalid("executable", l, "this loader links it, which Lambda does not have: "+build)
	}
	return architecture, nil
}

// loaders are those of Amazon Linux 2023, the system of Lambda's runtime provided.al2023. They
// belong to glibc. Executables that need no loader run everywhere.
var loaders = []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"}

// loader is the path of the program that links an executable when it starts, "" for none.
func loader(file *elf.File) string {
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			path, err := io.ReadAll(io.LimitReader(p.Open(), maxPathBytes))
			if err != nil {
				return "unknown"
			}
			return strings.TrimRight(string(path), "\x00")
		}
	}
	return ""
}

// kindOf says what a file is that is no executable for Linux.
func kindOf(file []byte) string {
	for kind, magics := range map[string][]string{
		"a program for macOS":   {"\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe"}, // one processor, and several
		"a program for Windows": {"MZ"},
	} {
		for _, magic := range magics {
			if bytes.HasPrefix(file, []byte(magic)) {
				return kind
			}
		}
	}
	return "no executable for Linux"
}
