package cli_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// two are two values that a flag accepts.
func two(f *pflag.Flag) [2]string {
	switch f.Value.Type() {
	case "bool":
		return [2]string{"true", "false"}
	case "int", "uint64", "float64":
		return [2]string{"7", "8"}
	case "duration":
		if f.Name == "latency" {
			return [2]string{"5ms", "6ms"}
		}
		return [2]string{"7s", "8s"}
	case "share":
		return [2]string{"7%", "8%"}
	case "size":
		return [2]string{"7MiB", "8MiB"}
	case "requests/time":
		return [2]string{"7/s", "8/s"}
	case "aws|off|WCU,RCU":
		return [2]string{"aws", "off"}
	case "name:rate[/period][:burst]":
		return [2]string{"rpm:7/min", "tpm:8/min"}
	case "name:slots":
		return [2]string{"inflight:7", "batch:8"}
	case "name:xfactor":
		return [2]string{"rpm:x7", "tpm:x8"}
	case "resource:name=tokens":
		return [2]string{"embeddings:rpm=7", "images:tpm=8"}
	case "name=tokens":
		return [2]string{"rpm=7", "tpm=8"}
	}
	if f.Name == "format" {
		return [2]string{"json", "csv"}
	}
	if strings.HasSuffix(f.Name, "windows") {
		return [2]string{"hourly", "daily"}
	}
	if words := strings.Split(f.Value.Type(), "|"); len(words) > 1 {
		return [2]string{words[0], words[1]}
	}
	return [2]string{"a=7", "b=8"}
}

// A flag that is given twice either takes both values or refuses the second: none keeps the
// last in silence.
func TestNoFlagLosesAValue(t *testing.T) {
	t.Parallel()
	lists := 0
	for _, path := range cli.CommandPaths() {
		all, _, err := cli.Root().Find(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Flags().VisitAll(func(f *pflag.Flag) {
			values := two(f)
			cmd := parsed(t, path, "--"+f.Name+"="+values[0])
			err := cmd.ParseFlags([]string{"--" + f.Name + "=" + values[1]})
			if err != nil {
				want := "--" + f.Name + " was given twice, and takes one value: give it once"
				if err := cmd.FlagErrorFunc()(cmd, err); !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%s --%s: %v, want %s", cmd.CommandPath(), f.Name, err, want)
				}
				return
			}
			lists++
			kept := cmd.Flags().Lookup(f.Name).Value.String()
			if !strings.Contains(kept, values[0]) || !strings.Contains(kept, values[1]) {
				t.Errorf("%s --%s %s --%s %s has kept %q", cmd.CommandPath(), f.Name, values[0], f.Name, values[1], kept)
			}
		})
	}
	if lists == 0 {
		t.Error("no flag takes several values")
	}
}

// parsed is a command that has parsed a flag.
func parsed(t *testing.T, path []string, flag string) *cobra.Command {
	t.Helper()
	cmd, _, err := cli.Root().Find(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags([]string{flag}); err != nil {
		t.Errorf("%s %s: %v", cmd.CommandPath(), flag, err)
	}
	return cmd
}

// A flag that is given by two of its names is given twice, also before the command.
func TestAFlagByTwoNamesIsGivenTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"entity get key-1 --table a1b --name c2d", "--table was given twice, and takes one value: give it once; other names of the flag are --name --stack"},
		{"entity get key-1 -n a1b --stack c2d", "--table was given twice"},
		{"--stack a1b entity get key-1 -n c2d", "--table was given twice"},
		{"usage list --entity a --entity-id b", "--entity was given twice, and takes one value: give it once; other names of the flag are --entity-id"},
		{"entity get-limits key-1 -r gpt-4 --resource gpt-4", "--resource was given twice"},
		{"entity delete key-1 -yy", "--yes was given twice"},
		{"local --secret-key s3cret --secret-key other", "--secret-key was given twice, and takes one value: give it once\n"},
		{"entity create key-1 --metadata a=1 --metadata a=2", "a was given before: name each key once"},
		{"entity create key-1 --metadata a=1,a=2", "a was given before: name each key once"},
		{"entity create acme --name ACME", "--name has two meanings for zae-limiter entity create: give --table or --display-name"},
		{"namespace recover id --name team", "--name has two meanings for zae-limiter namespace recover: give --table or --as"},
		{"limits export --name team", "--name has two meanings for zae-limiter limits export: give --table or --manifest"},
	} {
		code, _, stderr := run(t.Context(), strings.NewReader(""), strings.Fields(c.args)...)
		if code != 2 || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "s3cret") {
			t.Errorf("%s: exit code %d, errors %q, want %q", c.args, code, stderr, c.want)
		}
	}
}
