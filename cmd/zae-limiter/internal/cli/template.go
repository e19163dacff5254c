package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/stackarg"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/deploy"
)

type templateOptions struct {
	app        *app.App
	version    Version
	flags      stackarg.Flags[deploy.Options]
	out        string
	parameters string
	compact    bool
	spec       *deploy.Spec
}

const templateAbout = `Print the CloudFormation template of a stack, with comments, descriptions, and the reasons
of what checkov is to leave alone. CloudFormation takes this form from S3 only. The command
needs no network and no credentials.

The flags are those of deploy. Only --delete-data-with-stack changes the template; the
others change its parameters, which --parameters writes to a file and --output json
prints together with the template and the tags.`

func newTemplate(a *app.App, v Version) *cobra.Command {
	o := &templateOptions{app: a, version: v}
	cmd := a.Command(o, &cobra.Command{
		Use:     "template",
		Aliases: []string{"cfn-template"},
		Short:   "Print the CloudFormation template of a stack",
		Long:    templateAbout,
		Example: "  zae-limiter template\n" +
			"  zae-limiter template -n limits --create-iam-roles --compact -o stack.yaml --parameters stack.json",
	})
	o.flags.Bind(cmd.Flags(), deploy.OptionTable)
	cmd.Flags().VarP(app.Named(&o.out), "out", "o", "write the template to this `file`, and replace it (default standard\noutput)")
	cmd.Flags().Var(app.Named(&o.parameters), "parameters", "write the parameters to this `file`, as JSON in the form that the\nAWS command line reads, and replace it")
	cmd.Flags().BoolVar(&o.compact, "compact", false, "print it as deploy sends it: at most 51,200 bytes, with a line for\neach entry, and without what is for people and linters")
	return a.Prints(cmd, templateView{})
}

// Validate checks the options of the stack.
func (o *templateOptions) Validate() (err error) {
	if err := o.flags.Validate(); err != nil {
		return err
	}
	options := deploy.Defaults()
	options.Name, options.Version = o.app.Flags.Table, o.version.module()
	o.flags.Apply(&options)
	o.spec, err = stackarg.Spec(options)
	return err
}

// templateView is the result in JSON.
type templateView struct {
	Template   string             `json:"template"`
	Parameters []deploy.Parameter `json:"parameters"`
	Tags       []deploy.Tag       `json:"tags"`
}

// Run prints or writes the template.
func (o *templateOptions) Run(context.Context) error {
	body := o.spec.Source()
	if o.compact {
		body = string(o.spec.Template())
	}
	for _, note := range o.spec.Notes() {
		o.app.Notef("Note: %s", note)
	}
	if o.parameters != "" {
		text, err := json.MarshalIndent(o.spec.Parameters(), "", "  ")
		if err != nil {
			return fmt.Errorf("encode the parameters: %w", err)
		}
		if err := app.WriteFile(o.parameters, append(text, '\n'), true); err != nil {
			return err
		}
	}
	if o.out != "" {
		return app.WriteFile(o.out, []byte(body), true)
	}
	return o.app.Print(templateView{body, o.spec.Parameters(), o.spec.Tags()}, func(w *strings.Builder) { w.WriteString(body) })
}
