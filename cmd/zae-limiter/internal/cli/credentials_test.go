package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// askingAWS has a command line of each command that asks AWS, without its endpoint.
var askingAWS = map[string]string{
	"acquire":                  "key-1 gpt-4 --consume rpm=1",
	"aggregate":                "",
	"audit get-retention":      "",
	"audit list":               "--system",
	"audit set-retention":      "7",
	"available":                "key-1 gpt-4",
	"backup create":            "nightly",
	"backup delete":            "arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter/backup/01 -y",
	"backup list":              "",
	"backup restore":           "copy --to-time 2026-01-01T00:00:00Z",
	"check":                    "",
	"delete":                   "-y",
	"deploy":                   "-y",
	"entity children":          "acme",
	"entity create":            "acme",
	"entity delete":            "acme -y",
	"entity delete-limits":     "acme -y",
	"entity get":               "acme",
	"entity get-limits":        "acme",
	"entity list":              "",
	"entity list-resources":    "acme",
	"entity clear":             "key-1 -y",
	"entity bypass":            "key-1 -y",
	"entity disable":           "key-1 -y",
	"entity enable":            "key-1 -y",
	"entity raise":             "acme --limit rpm:x2 --until 2h",
	"entity set-cascade":       "key-1 off -y",
	"entity set-parent":        "key-1 --none -y",
	"entity reset":             "acme --resource gpt-4",
	"entity top-up":            "acme --resource gpt-4 --limit rpd=5",
	"entity set-limits":        "acme --limit rpm:1",
	"limits apply":             "-f limits.yaml -y",
	"limits diff":              "-f limits.yaml",
	"limits export":            "",
	"limits import":            "-f limits.yaml",
	"limits plan":              "-f limits.yaml",
	"list":                     "",
	"loadtest ceiling":         "simple --p99 10ms --class SimpleUser",
	"loadtest delete":          "-y",
	"loadtest deploy":          "-y --vpc-id vpc-01234567 --subnet-ids subnet-01234567",
	"loadtest list":            "",
	"loadtest run":             "simple",
	"loadtest tune":            "simple --class SimpleUser",
	"loadtest ui":              "",
	"loadtest swarm run":       "-y",
	"loadtest swarm tune":      "-y",
	"namespace delete":         "team -y",
	"namespace list":           "",
	"namespace orphans":        "",
	"namespace purge":          "0123456789abcdef -y",
	"namespace recover":        "0123456789abcdef",
	"namespace register":       "team",
	"namespace show":           "team",
	"redrive":                  "--queue-url ENDPOINT/123456789012/dlq",
	"resource clear":           "gpt-4 -y",
	"resource bypass":          "gpt-4 -y",
	"resource disable":         "gpt-4 -y",
	"resource enable":          "gpt-4 -y",
	"resource set-cascade":     "gpt-4 off -y",
	"resource delete-defaults": "gpt-4 -y",
	"resource get-defaults":    "gpt-4",
	"resource list":            "",
	"resource raise":           "gpt-4 --limit rpm:x2 --until 2h",
	"resource set-defaults":    "gpt-4 --limit rpm:1",
	"rollback":                 "-y",
	"serve":                    "",
	"standing":                 "key-1 gpt-4",
	"status":                   "",
	"system delete-defaults":   "-y",
	"system get-defaults":      "",
	"system set-defaults":      "--limit rpm:1",
	"table create":             "",
	"table delete":             "--confirm zae-limiter",
	"table enable-stream":      "",
	"table show":               "",
	"top":                      "gpt-4",
	"upgrade":                  "-y",
	"usage list":               "--resource gpt-4",
	"usage summary":            "--resource gpt-4",
	"version":                  "--table zae-limiter",
	"watch":                    "key-1 gpt-4",
}

// notAsking are the commands with an endpoint that need something else first.
var notAsking = map[string]string{
	"loadtest worker":       "a master of Locust",
	"loadtest serve-worker": "AWS Lambda",
	"loadtest orchestrate":  "a stack for load tests",
	"provision":             "AWS Lambda",
}

func TestEveryCommandWithAnEndpointAsksAWS(t *testing.T) {
	t.Parallel()
	for _, path := range cli.CommandPaths() {
		command := strings.Join(path, " ")
		cmd, _, err := cli.Root().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		_, asks := askingAWS[command]
		if asks = asks || notAsking[command] != ""; !asks && !cmd.HasSubCommands() && cmd.Flags().Lookup("endpoint-url") != nil {
			t.Errorf("%s has an endpoint: list it", command)
		}
	}
}

// refuse answers every request as services of AWS refuse credentials: with a code, in the form
// of the request.
func refuse(code, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Amzn-Requestid", "1")
		form := r.Header.Get("Content-Type")
		switch {
		case strings.HasPrefix(form, "application/x-amz-json"), strings.HasPrefix(r.URL.Path, "/20"): // Lambda's paths begin with a date
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.Header().Set("X-Amzn-Errortype", code)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"__type":"com.amazon.coral.service#%s","message":%q}`, code, message)
		case strings.HasPrefix(form, "application/x-www-form-urlencoded"):
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
		default:
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, `<Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
		}
	}
}

// asked runs a command that asks AWS at an address.
func asked(t *testing.T, command, address, manifest string) (code int, stdout, stderr string) {
	t.Helper()
	args := strings.Fields(command + " " + strings.NewReplacer("limits.yaml", manifest, "ENDPOINT", address).Replace(askingAWS[command]))
	args = append(args, "--endpoint-url", address)
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), cli.Options{
		Args: append(args, "--output", "json"), Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: os.Getenv, Executable: executable,
	})
	return code, out.String(), errs.String()
}

// Every command that asks AWS names credentials that it does not accept, and says what to do.
//
// Not parallel: the SDK reads the environment of the process.
func TestEveryCommandNamesTheCredentials(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_REGION", "us-east-1")
	manifest := filepath.Join(t.TempDir(), "limits.yaml")
	if err := os.WriteFile(manifest, []byte("namespace: default\nsystem: {limits: {rpm: {capacity: 10}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ code, key, want string }{
		{"ExpiredTokenException", "key", "with new credentials, from aws sso login for instance"},
		{"ExpiredToken", "key", "with new credentials, from aws sso login for instance"},
		{"InvalidSignatureException", "key", "with the right AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"},
		{"InvalidClientTokenId", "key", "with the right AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"},
		{"none", "", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", tt.key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", tt.key)
		s := httptest.NewServer(refuse(tt.code, "The security token included in the request is not valid"))
		for command := range askingAWS {
			code, stdout, stderr := asked(t, command, s.URL, manifest)
			want, kind := 1, `"error":"access_denied"`
			if command == "status" {
				want = 7
			}
			if command == "status" && tt.key != "" {
				kind, stderr = `"verdict":"forbidden"`, stdout
			}
			if code != want || !strings.Contains(stderr, kind) || !strings.Contains(stderr, tt.want) {
				t.Errorf("%s, %s: exit code %d, output %s, errors %s", tt.code, command, code, stdout, stderr)
			}
		}
		s.Close()
	}
}

// The exit code of status tells a table out of reach, and one that the credentials do not show,
// from one that is not there.
//
// Not parallel: the SDK reads the environment of the process.
func TestStatusTellsWhyItKnowsNothing(t *testing.T) {
	isolate(t)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, tt := range []struct {
		code    string // of the server's answers; "" is no server
		exit    int
		verdict string
	}{
		{"", 6, "unreachable"},
		{"AccessDeniedException", 7, "forbidden"},
		{"ExpiredToken", 7, "forbidden"},
		{"ResourceNotFoundException", 1, "broken"},
	} {
		address := gone.URL
		if tt.code != "" {
			s := httptest.NewServer(refuse(tt.code, "no"))
			t.Cleanup(s.Close)
			address = s.URL
		}
		if code, stdout, stderr := asked(t, "status", address, ""); code != tt.exit || !strings.Contains(stdout, `"verdict":"`+tt.verdict+`"`) {
			t.Errorf("%s: exit code %d, output %s, errors %s", tt.code, code, stdout, stderr)
		}
	}
}
