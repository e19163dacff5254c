package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/function"
)

// envHandler is the setting Handler of a function, as AWS Lambda passes it on.
const envHandler = "_HANDLER"

// handlers are what the program can be on AWS Lambda, by the function's setting Handler. A
// function has an environment and no command line: each handler makes the one from the other.
var handlers = map[string]func(getenv func(string) string) (args []string, err error){
	"aggregator":  aggregatorArgs,
	"provisioner": provisionerArgs,

	"loadworker":       loadWorkerArgs,
	"loadorchestrator": loadOrchestratorArgs,
}

// lambdaArgs returns the command line of a Lambda function whose code is this program.
func lambdaArgs(getenv func(string) string) ([]string, error) {
	name := getenv(envHandler)
	handler, ok := handlers[name]
	if !ok {
		return nil, fmt.Errorf("invalid $%s %q: set the function's Handler to one of %s", envHandler, name, strings.Join(slices.Sorted(maps.Keys(handlers)), ", "))
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
	table, level, err := env.tableAndLevel()
	if err != nil {
		return nil, err
	}
	days := env.get("SNAPSHOT_TTL_DAYS", "90")
	if n, err := strconv.Atoi(days); err != nil || n < 1 {
		return nil, fmt.Errorf("invalid $SNAPSHOT_TTL_DAYS %q: give a number of days, at least 1", days)
	}
	args := []string{
		"aggregate", "--table", table, "--usage-retention-days", days, "--log-level", level,
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

// loadWorkerArgs reads the environment of the workers of load tests. They have a principal,
// because AWS STS, which would tell who they are, may be out of their network's reach.
func loadWorkerArgs(getenv func(string) string) ([]string, error) {
	table, level, err := environment(getenv).tableAndLevel()
	return []string{"loadtest", "serve-worker", "--table", table, "--log-level", level, "--principal", "loadtest-worker"}, err
}

// loadOrchestratorArgs reads the environment of the orchestrator of load tests. The command
// checks the values, whose flags have the names of the variables.
func loadOrchestratorArgs(getenv func(string) string) ([]string, error) {
	env := environment(getenv)
	level, err := env.level()
	if err != nil {
		return nil, err
	}
	seconds := env.get("WORKER_TIMEOUT", "900")
	if n, err := strconv.Atoi(seconds); err != nil || n < 1 {
		return nil, fmt.Errorf("invalid $WORKER_TIMEOUT %q: give a number of seconds, at least 1", seconds)
	}
	return []string{
		"loadtest", "orchestrate", "--log-level", level, "--worker-timeout", seconds + "s",
		"--master", env.get("MASTER_ADDRESS", ""), "--page", env.get("MASTER_PAGE", ""), "--function", env.get("WORKER_FUNCTION", ""), "--namespace", env.get("NAMESPACE", "default"),
		"--scenario", env.get("SCENARIO", ""), "--scenario-file", env.get("SCENARIO_FILE", ""),
		"--min-workers", env.get("MIN_WORKERS", "1"), "--max-workers", env.get("MAX_WORKERS", "1"), "--users-per-worker", env.get("USERS_PER_WORKER", "1"),
	}, nil
}

// An environment is what a function is configured by.
type environment func(string) string

// get returns a variable without the spaces around it, or otherwise if it is not set.
func (e environment) get(name, otherwise string) string {
	return cmp.Or(strings.TrimSpace(e(name)), otherwise)
}

// tableAndLevel returns what both functions need: the table and the lowest level to log.
func (e environment) tableAndLevel() (table, level string, err error) {
	if table = e.get("TABLE_NAME", ""); table == "" {
		return "", "", errors.New(`invalid $TABLE_NAME "": give the name of the table`)
	}
	level, err = e.level()
	return table, level, err
}

// level returns the lowest level to log.
func (e environment) level() (string, error) {
	level := strings.ToLower(e.get("LOG_LEVEL", "info"))
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, level) {
		return "", fmt.Errorf("invalid $LOG_LEVEL %q: choose from debug, info, warn, error", level)
	}
	return level, nil
}
