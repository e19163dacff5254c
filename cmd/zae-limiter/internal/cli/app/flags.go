package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// Environment variables that stand in for flags that are not given.
const (
	EnvTable     = "ZAEL_STACK"
	EnvNamespace = "ZAEL_NAMESPACE"
)

const defaultTable = "zae-limiter"

// The values of the output flag.
const (
	OutputTable = "table"
	OutputJSON  = "json"
)

// Flags are the flags that every command has.
type Flags struct {
	Table, Namespace    string
	Region, EndpointURL string
	// Local is the directory of an embedded engine that replaces DynamoDB.
	Local  string
	Output string
	// Timeout is how long a server may take to begin an answer.
	Timeout time.Duration

	set *pflag.FlagSet
}

// Bind adds the flags to a flag set.
func (f *Flags) Bind(set *pflag.FlagSet) {
	f.set, f.Output = set, OutputTable
	set.StringVarP(&f.Table, "table", "n", defaultTable, "`name` of the table, else $"+EnvTable+"; --stack and --name are the same")
	set.StringVarP(&f.Namespace, "namespace", "N", dynamo.DefaultNamespace, "`name` of the namespace in the table, else $"+EnvNamespace)
	set.StringVar(&f.Region, "region", "", "AWS `region` (default as the AWS SDK finds it: AWS_REGION, profile)")
	set.StringVar(&f.EndpointURL, "endpoint-url", "", "`URL` of DynamoDB Local or zae-limiter local: http://localhost:8000")
	set.StringVar(&f.Local, "local", "", "`directory` of an embedded database that replaces DynamoDB")
	set.DurationVar(&f.Timeout, "timeout", DefaultTimeout, "how long a server may take to begin an answer")
	set.VarP(Choice(&f.Output, OutputTable, OutputJSON), "output", "o", "form of results and errors: table or json")
}

// JSON reports whether results and errors are written as JSON.
func (f *Flags) JSON() bool { return f.Output == OutputJSON }

// resolve reads the environment for flags that were not given, and checks the result.
func (f *Flags) resolve(getenv func(string) string) error {
	table := fromEnv(f.set, "table", &f.Table, getenv, EnvTable)
	namespace := fromEnv(f.set, "namespace", &f.Namespace, getenv, EnvNamespace)
	if err := CheckTable(f.Table); err != nil {
		return fmt.Errorf("invalid %s %q: %w", table, f.Table, err)
	}
	if err := store.CheckNamespace(f.Namespace); err != nil {
		return fmt.Errorf("%s: %w", namespace, err)
	}
	if f.set.Changed("region") && !IsRegion(f.Region) {
		return fmt.Errorf("invalid --region %q: give the name of a region, us-east-1 for instance", f.Region)
	}
	if f.set.Changed("endpoint-url") {
		if err := CheckURL(f.EndpointURL, "http://localhost:8000"); err != nil {
			return fmt.Errorf("invalid --endpoint-url %q: %w", f.EndpointURL, err)
		}
	}
	if f.Timeout <= 0 {
		return fmt.Errorf("invalid --timeout %v: give more than nothing, 30s for instance", f.Timeout)
	}
	return f.checkLocal()
}

// patience is how long a call may take that sends one request, and 0 for the usual time, which
// all attempts share: a longer --timeout makes it longer.
func (f *Flags) patience() time.Duration {
	const rest = 2 * time.Second // for the connection, and for reading the answer
	if f.Timeout == 0 || f.Timeout == DefaultTimeout {
		return 0
	}
	return f.Timeout + rest
}

// checkLocal rejects flags that contradict --local.
func (f *Flags) checkLocal() error {
	if !f.set.Changed("local") {
		return nil
	}
	if f.Local == "" {
		return errors.New(`invalid --local "": give a directory, ./limits for instance`)
	}
	if name, ok := f.Given("endpoint-url", "region"); ok {
		return fmt.Errorf("--local and --%s contradict each other: a database of --local is in a directory, not at AWS or at a URL", name)
	}
	return nil
}

// Given is the first of the named flags that is on the command line.
func (f *Flags) Given(names ...string) (name string, ok bool) {
	for _, name := range names {
		if f.set.Changed(name) {
			return name, true
		}
	}
	return "", false
}

// fromEnv sets a flag that was not given from the environment, and names the source of its
// value.
func fromEnv(set *pflag.FlagSet, name string, value *string, getenv func(string) string, key string) (source string) {
	if v := getenv(key); v != "" && !set.Changed(name) {
		*value = v
		return "$" + key
	}
	return "--" + name
}

// CheckTable checks a name against DynamoDB's rule.
func CheckTable(name string) error {
	const least, most = 3, 255
	if len(name) < least || len(name) > most || strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	}) {
		return errors.New(`a table has 3 to 255 letters, digits and "_.-"`)
	}
	return nil
}

// given repeats the connection flags of the command line, for a proposed command.
func (f *Flags) given() string {
	var b strings.Builder
	for _, name := range []string{"region", "endpoint-url", "local"} {
		if f.set.Changed(name) {
			b.WriteString(" --" + name + " " + quoted(f.set.Lookup(name).Value.String()))
		}
	}
	return b.String()
}

// CommandLine writes a command and its arguments as a shell reads them.
func CommandLine(args []string) string {
	words := make([]string, len(args))
	for i, word := range args {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}

// quoted quotes a word for a shell.
func quoted(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Choice is the value of a flag that accepts one of a few words.
func Choice[T ~string](target *T, options ...T) pflag.Value { return &choice[T]{target, options} }

type choice[T ~string] struct {
	target  *T
	options []T
}

func (c *choice[T]) String() string {
	if c.target == nil {
		return ""
	}
	return string(*c.target)
}

func (c *choice[T]) Set(s string) error {
	if !slices.Contains(c.options, T(s)) {
		return errors.New("give " + c.Type())
	}
	*c.target = T(s)
	return nil
}

// Type is the value's name in help.
func (c *choice[T]) Type() string { return strings.Join(c.Words(), "|") }

// Words are the words that the flag accepts, for completion.
func (c *choice[T]) Words() []string {
	words := make([]string, len(c.options))
	for i, o := range c.options {
		words[i] = string(o)
	}
	return words
}
