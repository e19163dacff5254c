package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TestProcess tests what only a process has: signals, and its end.
func TestProcess(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "zae-limiter")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "../..").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for name, test := range map[string]func(*testing.T, string){
		"what it prints is all that others need":      printsTheEnvironment,
		"a signal lets the request under way end":     endsWhenTold,
		"one that does not end is cut off":            cutsOff,
		"a second signal ends it at once":             endsAtOnce,
		"what it acknowledged is there after kill -9": survives,
		"AWS Lambda has it count":                     servesLambda,
		"AWS Lambda has it set limits":                provisionsLambda,
		"AWS Lambda has it start workers":             orchestratesLambda,
		"AWS Lambda has it work for Locust":           worksForLocust,
		"it follows a stream that is served":          followsOverHTTP,
		"a killed apply of limits is completed":       appliesAfterKill,
		"an apply on a full disk is completed":        appliesAfterAFullDisk,
		"a full disk leaves no half of a file":        keepsFiles,
		"a result for a full disk is an error":        reportsFullOutput,
		"it starts without work that can wait":        startsAtOnce,
		"its error is all that it reports":            reportsOnlyItsError,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, bin) })
	}
}

// A process is a running zae-limiter local.
type process struct {
	*exec.Cmd
	*testing.T
	url     string
	printed string        // all lines of standard output
	ended   chan struct{} // closed once err and stderr are set
	err     error
	stderr  bytes.Buffer
}

// watched runs a program, with a watcher that kills it as soon as standard input ends: a
// test binary that times out runs no cleanup.
const watched = `exec 3<&0; (cat <&3; kill -9 $$) >/dev/null 2>&1 & exec "$@" 3<&-`

// start runs the program on a free port.
func start(t *testing.T, bin string, env []string, args ...string) *process {
	t.Helper()
	args = append([]string{"-c", watched, "sh", bin, "local", "--addr", "127.0.0.1:0"}, args...)
	p := &process{Cmd: exec.Command("sh", args...), T: t, ended: make(chan struct{})} //nolint:noctx // each test ends it in its own way
	p.Env, p.Stderr = env, &p.stderr
	stdin, err := p.StdinPipe()
	p.must(err)
	read, write := io.Pipe()
	p.Stdout = write
	p.must(p.Start())
	go func() {
		p.err = p.Wait()
		_ = write.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-p.ended
		_ = stdin.Close()
	})
	lines := bufio.NewReader(read)
	for last := false; !last; {
		line, err := lines.ReadString('\n')
		if err != nil {
			<-p.ended
			t.Fatalf("%v: %v, %s", args, p.err, &p.stderr)
		}
		p.printed += line
		// In one form the secret key is the last line; the other form is a single line.
		last = strings.Contains(line, "AWS_SECRET_ACCESS_KEY")
	}
	p.url = endpointPattern.FindString(p.printed)
	return p
}

func (p *process) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// bare is an environment in which the SDK finds nothing.
func bare(t *testing.T, more ...string) []string {
	t.Helper()
	return append(more, "HOME="+t.TempDir(), "PATH="+os.Getenv("PATH"), "AWS_EC2_METADATA_DISABLED=true")
}

func printsTheEnvironment(t *testing.T, bin string) {
	t.Helper()
	for _, tt := range []struct {
		keys []string
		more string // appended to the printed environment
		code string
	}{
		{nil, "", "0"},
		{[]string{"ZAEL_LOCAL_ACCESS_KEY=AKID", "ZAEL_LOCAL_SECRET_KEY=sesame"}, "export AWS_SECRET_ACCESS_KEY=sesame", "0"},
		{[]string{"ZAEL_LOCAL_ACCESS_KEY=AKID", "ZAEL_LOCAL_SECRET_KEY=sesame"}, "export AWS_SECRET_ACCESS_KEY=guess", "1"},
	} {
		p := start(t, bin, bare(t, tt.keys...), "--data", t.TempDir())
		if strings.Contains(p.printed, "sesame") {
			t.Errorf("it tells the secret:\n%s", p.printed)
		}
		script := p.printed + tt.more + "\n" + `"$0" table create --output json; echo $?`
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script, bin)
		cmd.Env = bare(t)
		out, err := cmd.Output()
		p.must(err)
		if words := strings.Fields(string(out)); words[len(words)-1] != tt.code {
			t.Errorf("%s\nprints %s, want exit code %s", script, out, tt.code)
		}
	}
}

// underWay is a request that the server has begun to read.
type underWay struct {
	net.Conn
	answer *bufio.Reader
}

// begin sends a request without its body, and returns when the server asks for the body.
func (p *process) begin() underWay {
	p.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://")) //nolint:noctx // on loopback
	p.must(err)
	p.Cleanup(func() { _ = c.Close() })
	_, err = io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"+
		"X-Amz-Target: DynamoDB_20120810.ListTables\r\nX-Amz-Date: 20260102T030405Z\r\n"+
		"Authorization: AWS4-HMAC-SHA256 Credential=local/20260102/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature="+strings.Repeat("0", 64)+"\r\n"+
		"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
	p.must(err)
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	p.must(err)
	if !strings.Contains(line, "100 Continue") {
		p.Fatalf("the server answers %q", line)
	}
	_, err = r.ReadString('\n')
	p.must(err)
	return underWay{c, r}
}

// refuses returns once the server no longer listens.
func (p *process) refuses() {
	p.Helper()
	for {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://")) //nolint:noctx // on loopback
		if err != nil {
			return
		}
		_ = c.Close()
	}
}

func endsWhenTold(t *testing.T, bin string) {
	t.Helper()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		p := start(t, bin, bare(t), "--data", t.TempDir(), "--latency", "10ms")
		r := p.begin()
		p.must(p.Process.Signal(signal))
		p.refuses()
		_, err := io.WriteString(r, "{}")
		p.must(err)
		answer, err := http.ReadResponse(r.answer, nil)
		p.must(err)
		body, err := io.ReadAll(answer.Body)
		p.must(errors.Join(err, answer.Body.Close()))
		if answer.StatusCode != http.StatusOK || string(body) != `{"TableNames":[]}` {
			t.Errorf("%v: the request under way was answered %d %s", signal, answer.StatusCode, body)
		}
		<-p.ended
		if p.err != nil || p.stderr.Len() > 0 {
			t.Errorf("%v: %v, errors %q", signal, p.err, &p.stderr)
		}
	}
}

func cutsOff(t *testing.T, bin string) {
	t.Helper()
	p := start(t, bin, bare(t))
	p.begin()
	p.must(p.Process.Signal(syscall.SIGTERM))
	<-p.ended
	const want = "Error: requests that did not end in time were cut off: "
	if p.ProcessState.ExitCode() != 1 || !strings.HasPrefix(p.stderr.String(), want) {
		t.Errorf("it ended with %v, errors %q", p.err, &p.stderr)
	}
}

func endsAtOnce(t *testing.T, bin string) {
	t.Helper()
	p := start(t, bin, bare(t))
	p.begin() // a request that never ends
	p.must(p.Process.Signal(syscall.SIGTERM))
	p.refuses()
	again := time.NewTicker(10 * time.Millisecond) // the first signal may come before the program has stopped catching them
	defer again.Stop()
	for {
		_ = p.Process.Signal(syscall.SIGTERM) // fails once the process has ended
		select {
		case <-p.ended:
			exit, ok := errors.AsType[*exec.ExitError](p.err)
			if !ok {
				t.Fatalf("it ended with %v", p.err)
			}
			if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v, want the signal", p.err)
			}
			return
		case <-again.C:
		}
	}
}

// survives kills the server repeatedly while clients write to it.
func survives(t *testing.T, bin string) {
	t.Helper()
	const lives, writers, writes = 3, 4, 50
	table, dir := aws.String("kept"), t.TempDir()
	key := func(life, writer, i int) map[string]types.AttributeValue {
		return map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: fmt.Sprint(life, writer, i)}}
	}
	var acknowledged [lives][writers]int
	for life := range lives {
		p := start(t, bin, bare(t), "--data", dir, "--output", "json")
		var said struct{ Endpoint string }
		p.must(json.Unmarshal([]byte(p.printed), &said))
		p.must(validate("local", []byte(p.printed)))
		client := newClient(said.Endpoint)
		if life == 0 {
			_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
				TableName: table, BillingMode: types.BillingModePayPerRequest,
				AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
				KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			})
			p.must(err)
		}
		var working sync.WaitGroup
		enough := make(chan struct{}, writers)
		for writer := range writers {
			working.Go(func() {
				for i := 0; ; i++ {
					if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: table, Item: key(life, writer, i)}); err != nil {
						if i < writes {
							t.Error(err)
							enough <- struct{}{}
						}
						return
					}
					acknowledged[life][writer] = i + 1
					if i == writes {
						enough <- struct{}{}
					}
				}
			})
		}
		for range writers {
			<-enough
		}
		p.must(p.Process.Kill())
		working.Wait()
		<-p.ended
	}

	p := start(t, bin, bare(t), "--data", dir)
	client := newClient(p.url)
	for life := range lives {
		for writer, n := range acknowledged[life] {
			for i := range n {
				out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: table, Key: key(life, writer, i), ConsistentRead: aws.Bool(true)})
				p.must(err)
				if out.Item == nil {
					t.Fatalf("write %d of writer %d was acknowledged in life %d and is gone", i, writer, life)
				}
			}
		}
	}
}
