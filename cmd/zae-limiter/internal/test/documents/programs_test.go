// Package docs_test builds and runs the programs that the documents contain, compiles their
// fragments of Go, and parses their data.
package documents_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/test/doctest"
)

var update = flag.Bool("update", false, "write what the programs print into the documents")

// modules are the folders of this repository's modules that programs import.
var modules = []string{".", "middleware/grpclimit", "metrics/otellimit"}

// timeout bounds the build and each program.
const timeout = 5 * time.Minute

// A user who copies a program from a document gets one that builds outside this repository and
// prints what the document says. Fragments of Go compile in a function of their own.
func TestTheProgramsOfTheDocumentsWork(t *testing.T) {
	t.Parallel()
	root, bin := t.TempDir(), t.TempDir()
	outside(t, root)
	blocks := doctest.Blocks(t, "../../../../..", doctest.Program, doctest.Output, doctest.Fragment)
	want := extract(t, root, blocks)
	extractFragments(t, filepath.Join(root, "fragments"), blocks)
	write(t, filepath.Join(root, "pasted", "main.go"), pasted(t, blocks))
	command(t, root, "go", "build", "./fragments/...") // reports more than the first error, as vet does not
	command(t, root, "go", "build", "-ldflags=-s -w", "-o", bin, "./...")
	// A fragment may end with a return, and what uses its variables follows.
	command(t, root, "go", "vet", "-unreachable=false", "./...")
	for name, output := range want {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := run(t, filepath.Join(bin, name))
			if *update {
				record(t, output.document, name, got)
			} else if diff := cmp.Diff(rounded(output.text), rounded(got)); diff != "" {
				t.Errorf("%s: %s prints something else (-document +program); run go test ./docs -update\n%s", output.document, name, diff)
			}
		})
	}
	t.Run("pasted", func(t *testing.T) {
		t.Parallel()
		if got := command(t, ".", filepath.Join(bin, "pasted")); !strings.HasSuffix(got, "\n200\n429\n") {
			t.Errorf("README's server, after README's program, answers\n%s", got)
		}
	})
	t.Run("tests", func(t *testing.T) {
		t.Parallel()
		if out := command(t, root, "go", "test", "-vet=off", "-ldflags=-s -w", "-v", "./..."); !strings.Contains(out, "--- PASS: TestTheHandlerRefusesAndAdmitsAgain") {
			t.Errorf("the test of the handler did not run:\n%s", out)
		}
	})
}

// pasted is README's program with README's HTTP server at its end, and a client that prints each
// new status until it is refused.
func pasted(t *testing.T, blocks []doctest.Block) string {
	t.Helper()
	var program, server string
	for _, b := range blocks {
		switch {
		case b.Document != "README.md":
		case b.Check == doctest.Program:
			program = b.Text
		case b.Check == doctest.Fragment && strings.Contains(b.Text, "httplimit.New("):
			server = b.Text
		}
	}
	body, ends := strings.CutSuffix(program, "}\n")
	if !ends || server == "" {
		t.Fatal("README has no program, or no server")
	}
	body = strings.Replace(body, "import (\n", `import (
	"net/http"
	"net/http/httptest"
	"github.com/zeroae/zae-limiter-go/middleware/httplimit"
`, 1)
	return body + server + `
	status := 0
	for n := 0; n < 10_000 && status < http.StatusBadRequest; n++ {
		r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
		r.Header.Set("Authorization", "Bearer secret")
		http.DefaultServeMux.ServeHTTP(w, r)
		if w.Code != status {
			status = w.Code
			fmt.Println(status)
		}
	}
}

var handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
`
}

// outside writes a module that has this repository's modules in place of published ones. Its
// checksums are theirs, so that the build asks no checksum database about them.
func outside(t *testing.T, root string) {
	t.Helper()
	var mod, sum strings.Builder
	mod.WriteString("module example.com/outside\n\ngo 1.26.0\n")
	program := filepath.Join("..", "..", "..") // it needs the SDK's configuration, as the documents' programs do
	config := regexp.MustCompile(`github.com/aws/aws-sdk-go-v2/config v.*`).FindString(read(t, filepath.Join(program, "go.mod")))
	fmt.Fprintf(&mod, "\nrequire %s\n", config)
	sum.WriteString(read(t, filepath.Join(program, "go.sum")))
	for _, folder := range modules {
		dir, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "..", folder))
		if err != nil {
			t.Fatal(err)
		}
		name := path.Join("github.com/zeroae/zae-limiter-go", folder)
		fmt.Fprintf(&mod, "\nrequire %s v0.0.0-00010101000000-000000000000\nreplace %[1]s => %s\n", name, dir)
		sum.WriteString(read(t, filepath.Join(dir, "go.sum")))
	}
	write(t, filepath.Join(root, "go.mod"), mod.String())
	write(t, filepath.Join(root, "go.sum"), sum.String())
}

// An output is what a program prints, and the document that says so.
type output struct{ document, text string }

// every is the folder of the files that programs have beside them.
const every = "every"

// alone lists the documents whose programs have no other files beside them.
var alone = []string{"README.md"}

// extract writes the files of all programs, and returns the outputs by program.
func extract(t *testing.T, root string, blocks []doctest.Block) map[string]output {
	t.Helper()
	outputs, programs, shared, files := map[string]output{}, map[string]doctest.Block{}, map[string]string{}, map[string]string{}
	for _, b := range blocks {
		program, file := path.Split(b.Argument)
		program = path.Clean(program)
		switch {
		case b.Check == doctest.Output:
			outputs[b.Argument] = output{filepath.Join("..", "..", "..", "..", "..", b.Document), b.Text}
		case b.Check != doctest.Program:
		case program == every:
			shared[file] = b.Text
		default:
			if other, ok := files[b.Argument]; ok {
				t.Errorf("%s and %s have a file of the name %s", other, b.Document, b.Argument)
			}
			files[b.Argument] = b.Document
			write(t, filepath.Join(root, program, file), b.Text)
			programs[program] = b
		}
	}
	for program, b := range programs {
		for file, text := range shared {
			if !slices.Contains(alone, b.Document) {
				write(t, filepath.Join(root, program, file), text)
			}
		}
	}
	for name := range outputs {
		if _, ok := programs[name]; !ok {
			t.Errorf("there is an output of %s, but no such program", name)
		}
	}
	return outputs
}

// number matches a number of four digits or more.
var number = regexp.MustCompile(`[0-9]{4,}`)

// rounded is a text with its large numbers rounded to tens. A new bucket earns from an instant
// of a fixed grid, so a wait is up to two seconds shorter than the limit's period says.
func rounded(text string) string {
	return number.ReplaceAllStringFunc(text, func(s string) string {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return s
		}
		return strconv.FormatInt((n+5)/10*10, 10)
	})
}

// run runs a program, and returns what it prints. A function of AWS Lambda prints what it
// answers.
func run(t *testing.T, program string) string {
	t.Helper()
	if path.Base(program) == "lambda" {
		return invoke(t, program, `{"Tenant":"acme"}`, `{"Tenant":"acme"}`, `{"Tenant":"acme"}`)
	}
	return command(t, ".", program)
}

// invoke runs a function of AWS Lambda on the events, and returns the answers, a line each. It
// has the part of Lambda's runtime API that functions call.
func invoke(t *testing.T, program string, events ...string) string {
	t.Helper()
	var mu sync.Mutex
	var answers []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		next := len(answers)
		mu.Unlock()
		if next == len(events) {
			cancel() // Lambda ends the process
			<-r.Context().Done()
			return
		}
		w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(next))
		w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10))
		_, _ = io.WriteString(w, events[next])
	})
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/{kind}", func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.Body); err != nil || r.PathValue("kind") != "response" || !json.Valid(b.Bytes()) {
			t.Errorf("%s: %s, %v", r.URL, &b, err)
		}
		mu.Lock()
		defer mu.Unlock()
		answers = append(answers, b.String())
		w.WriteHeader(http.StatusAccepted)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+strings.TrimPrefix(server.URL, "http://"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); ctx.Err() == nil {
		t.Errorf("the function ended: %v\n%s", err, &out)
	}
	return strings.Join(answers, "\n") + "\n"
}

// command runs a command in a folder, and returns its standard output.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var recording sync.Mutex // of documents

// record writes the output of a program into its document.
func record(t *testing.T, document, program, text string) {
	t.Helper()
	recording.Lock()
	defer recording.Unlock()
	was := read(t, document)
	at := regexp.MustCompile("(?ms)(^<!-- output: " + program + " -->\n```[a-z]+\n).*?(^```$)")
	write(t, document, at.ReplaceAllString(was, "${1}"+strings.ReplaceAll(text, "$", "$$")+"${2}"))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
