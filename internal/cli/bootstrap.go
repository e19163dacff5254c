package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/cli/function"
)

// envHandler is the setting Handler of a function, as AWS Lambda passes it on.
const envHandler = "_HANDLER"

// handlers are what the program can be on AWS Lambda, by the function's setting Handler. A
// function has an environment and no command line: each handler makes the one from the other.
var handlers = map[string]func(getenv func(string) string) (args []string, err error){
	"aggregator":  aggregatorArgs,
	"provisioner": provisionerArgs,
}

// lambdaArgs returns the command line of a Lambda function whose code is this program.
func lambdaArgs(getenv func(string) string) ([]string, error) {
	name := getenv(envHandler)
	handler, ok := handlers[name]
	if !ok {
		return nil, fmt.Errorf("invalid $%s %q: set the function's Handler to %s", envHandler, name, strings.Join(slices.Sorted(maps.Keys(handlers)), " or "))
	}
	return handler(getenv)
}

// onLambda reports whether AWS Lambda has started the program, without a command line.
func onLambda(o *Options) bool { return len(o.Args) == 0 && o.Getenv(function.EnvRuntime) != "" }

// archivePrefix is the prefix of the archive in the bucket of a stack, as the peer has it.
const archivePrefix = "audit"

// aggregatorArgs reads the environment of the aggregator. The names of the variables are the
// peer's.
func aggregatorArgs(getenv func(string) string) ([]string, error) {
	env := environment(getenv)
	windows, err := windowsOf(env.get("SNAPSHOT_WINDOWS", "hourly,daily"))
	if err != nil {
		return nil, err
	}
	table, level, err := env.tableAndLevel()
	if err != nil {
		return nil, err
	}
	days := env.get("SNAPSHOT_TTL_DAYS", "90")
	if n, err := strconv.Atoi(days); err != nil || n < 1 {
		return nil, fmt.Errorf("invalid $SNAPSHOT_TTL_DAYS %q: give a number of days, at least 1", days)
	}
	args := []string{
		"aggregate", "--table", table, "--windows", windows, "--usage-retention-days", days, "--log-level", level,
	}
	switch archival := strings.ToLower(env.get("ENABLE_ARCHIVAL", "false")); archival {
	case "false":
		return args, nil
	case "true":
	default:
		return nil, fmt.Errorf("invalid $ENABLE_ARCHIVAL %q: give true or false", archival)
	}
	bucket := env.get("ARCHIVE_BUCKET_NAME", "")
	if bucket == "" {
		return nil, errors.New(`invalid $ARCHIVE_BUCKET_NAME "": name the bucket of the archive, or set $ENABLE_ARCHIVAL to false`)
	}
	return append(args, "--archive", "s3://"+bucket+"/"+archivePrefix), nil
}

// provisionerArgs reads the environment of the provisioner.
func provisionerArgs(getenv func(string) string) ([]string, error) {
	table, level, err := environment(getenv).tableAndLevel()
	return []string{"provision", "--table", table, "--log-level", level}, err
}

// An environment is what a function is configured by.
type environment func(string) string

// get returns a variable without the spaces around it, or otherwise if it is not set.
func (e environment) get(name, otherwise string) string {
	return cmp.Or(strings.TrimSpace(e(name)), otherwise)
}

// tableAndLevel returns what both functions need: the table and the lowest level to log.
func (e environment) tableAndLevel() (table, level string, err error) {
	table, level = e.get("TABLE_NAME", ""), strings.ToLower(e.get("LOG_LEVEL", "info"))
	switch {
	case table == "":
		return "", "", errors.New(`invalid $TABLE_NAME "": give the name of the table`)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, level):
		return "", "", fmt.Errorf("invalid $LOG_LEVEL %q: choose from debug, info, warn, error", level)
	}
	return table, level, nil
}

// windowsOf checks a list of windows, and removes the spaces in it.
func windowsOf(text string) (string, error) {
	words := strings.Split(text, ",")
	for i, word := range words {
		words[i] = strings.TrimSpace(word)
		if !slices.Contains([]string{"hourly", "daily", "monthly"}, words[i]) {
			return "", fmt.Errorf("invalid $SNAPSHOT_WINDOWS %q: give some of hourly, daily and monthly, with commas between them", text)
		}
	}
	return strings.Join(words, ","), nil
}
