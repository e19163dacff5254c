// Package loadtest has the commands that put a load on a limiter.
package loadtest

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/limitarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/scenario"
)

// New is the command loadtest.
func New(a *app.App) *cobra.Command {
	return app.Group("loadtest", "Put a load on a limiter: speed, cost and correctness",
		newRun(a), newScenarios(a), newShow(a), NewReport(a), NewCompare(a), newCeiling(a), newTune(a), NewWorker(a),
		NewDeploy(a), NewUI(a), NewList(a), NewDelete(a), newSwarm(a), NewServeWorker(a, carryWithLocust), NewOrchestrate(a))
}

// source names a scenario: one of the program's, or a file.
type source struct {
	name, file string
	class      string // the only one that counts; "" is all
}

// args takes one name, or none beside --file.
func (s *source) args(cmd *cobra.Command, args []string) error {
	switch given := cmd.Flags().Changed("file"); {
	case len(args) > 1:
		return app.Usagef("unexpected argument %q", args[1])
	case len(args) == 1 && given:
		return app.Usagef("give SCENARIO or --file, not both")
	case len(args) == 0 && !given:
		return app.Usagef("missing argument SCENARIO: give one of %s, or --file", strings.Join(scenario.Names(), ", "))
	case len(args) == 1:
		s.name = args[0]
	}
	return nil
}

// bind adds the flag to a command.
func (s *source) bind(cmd *cobra.Command) {
	cmd.Flags().Var(app.Named(&s.file), "file", "`file` of the scenario (docs/scenarios.md), instead of one of the\nprogram")
}

// bindOne adds the flags to a command whose load is one class.
func (s *source) bindOne(cmd *cobra.Command) {
	s.bind(cmd)
	cmd.Flags().Var(app.Named(&s.class), "class", "`name` of the only class that makes the load (default all)")
}

// read reads the scenario.
func (s *source) read() (*scenario.Scenario, error) {
	all, err := s.all()
	if err != nil || s.class == "" {
		return all, err
	}
	one, err := all.WithClass(s.class)
	return one, named(err)
}

// all reads the scenario with all classes.
func (s *source) all() (*scenario.Scenario, error) {
	if s.file == "" {
		return scenario.Builtin(s.name)
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return nil, app.Unread("the scenario", err)
	}
	return scenario.Parse(s.file, data)
}

// catalogue is the command scenarios.
type catalogue struct{ app *app.App }

func newScenarios(a *app.App) *cobra.Command {
	return a.Prints(a.Command(&catalogue{a}, &cobra.Command{
		Use: "scenarios", Short: "List the scenarios of the program",
		Long: "List the scenarios of the program. `loadtest show` prints the file of one, to copy and\nchange; `loadtest run` runs it. Nothing is sent.",
	}), catalogueView{})
}

// listed is a scenario of the program.
type listed struct {
	Name     string   `json:"scenario"`
	About    string   `json:"about"` // what the scenario is
	Seconds  float64  `json:"duration_seconds"`
	Sides    []string `json:"sides"`    // what runs it: limiter, baseline
	Entities int      `json:"entities"` // number of entities
}

// catalogueView is the result in JSON.
type catalogueView struct {
	Scenarios []listed `json:"scenarios"` // the scenarios by name
}

// Run lists the scenarios.
func (l *catalogue) Run(context.Context) error {
	all := []listed{}
	for _, name := range scenario.Names() {
		s, err := scenario.Builtin(name)
		if err != nil {
			return err
		}
		of := listed{Name: name, About: s.About, Seconds: s.Duration().Seconds()}
		for _, side := range s.Sides {
			of.Sides = append(of.Sides, string(side))
		}
		for i := range s.Populations {
			of.Entities += s.Populations[i].Count + s.Populations[i].Parents
		}
		all = append(all, of)
	}
	return l.app.Print(catalogueView{all}, func(w *strings.Builder) {
		rows := make([][]string, len(all))
		for i, s := range all {
			rows[i] = []string{s.Name, seconds(s.Seconds), limitarg.Grouped(s.Entities), strings.Join(s.Sides, ","), s.About}
		}
		app.Table(w, []string{"SCENARIO", "LASTS", "ENTITIES", "SIDES", "ABOUT"}, rows)
	})
}

// shower is the command show.
type shower struct {
	app  *app.App
	name string
}

func newShow(a *app.App) *cobra.Command {
	s := &shower{app: a}
	return a.Prints(a.Command(s, &cobra.Command{
		Use: "show SCENARIO", Short: "Print the file of a scenario, to copy and change",
		Example: "  zae-limiter loadtest show llm-gateway > mine.yaml\n  zae-limiter loadtest run --file mine.yaml --local :memory:",
	}, &s.name), fileView{})
}

// Validate checks the name.
func (s *shower) Validate() error {
	_, err := scenario.Source(s.name)
	return err
}

// fileView is the result in JSON.
type fileView struct {
	Name string `json:"scenario"`
	Text string `json:"text"` // of the file
}

// Run prints the file.
func (s *shower) Run(context.Context) error {
	text, err := scenario.Source(s.name)
	if err != nil {
		return err
	}
	return s.app.Print(fileView{s.name, string(text)}, func(w *strings.Builder) { w.Write(text) })
}
