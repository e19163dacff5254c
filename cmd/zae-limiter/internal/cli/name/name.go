// Package name has the commands that make IDs of names, and names of IDs.
package name

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli/app"
	"github.com/zeroae/zae-limiter-go/store"
)

const about = `Make the ID of an entity of any name, and the name of an ID.

IDs have letters, digits and "_.-:@". Identity providers give other names: auth0|5f7c, or
ann+test@example.com, or an ARN with slashes. Their IDs have Z_ and two digits in place of
each other character: auth0Z_7C5f7c. A valid ID is its own encoding, unless it looks like
one. The library does the same (EncodeName, DecodeName).`

// New is the command name.
func New(a *app.App) *cobra.Command {
	cmd := app.Group("name", "Make the ID of an entity of any name, and back",
		newCoding(a, &coding{
			use: "encode NAME...", short: "Print the ID of an entity for each name", argument: "NAME",
			example: "  zae-limiter name encode 'auth0|5f7c'\n" +
				"  zae-limiter standing \"$(zae-limiter name encode 'auth0|5f7c')\" gpt-4",
			code: encode,
		}),
		newCoding(a, &coding{
			use: "decode ID...", short: "Print the name that each ID was made of", argument: "ID",
			long: "Print the name that each ID was made of, one a line.\n\n" +
				"A name may have any bytes. A terminal shows a name with a line feed or with control\n" +
				"characters in quotes, as Go writes strings. A pipe or a file gets each name as it is, so a\n" +
				"name with a line feed takes two lines there: decode one ID at a time, or use --output json.",
			example: "  zae-limiter name decode auth0Z_7C5f7c",
			code:    decode,
		}))
	cmd.Long = about
	return cmd
}

// A pair is a name and its ID in JSON.
type pair struct {
	Name string `json:"name"` // the name as it came
	ID   string `json:"entity_id"`
}

// pairsView is the result in JSON.
type pairsView struct {
	Names []pair `json:"names"` // in the order of the arguments
}

func encode(name string) (p pair, result string, err error) {
	id := limiter.EncodeName(name)
	if err := store.CheckEntity(id); err != nil {
		return pair{}, "", fmt.Errorf("the ID of the name: %w", err)
	}
	return pair{name, id}, id, nil
}

func decode(id string) (p pair, result string, err error) {
	if err := store.CheckEntity(id); err != nil {
		return pair{}, "", err
	}
	name, err := limiter.DecodeName(id)
	if err != nil {
		return pair{}, "", fmt.Errorf("invalid ID %q: zae-limiter name encode makes it of no name", id)
	}
	return pair{name, id}, name, nil
}

// A coding is one of the two commands.
type coding struct {
	use, short, long, example, argument string

	code func(string) (p pair, result string, err error)
}

type codingOptions struct {
	app *app.App
	*coding

	args    []string
	pairs   []pair
	results []string
}

func newCoding(a *app.App, c *coding) *cobra.Command {
	o := &codingOptions{app: a, coding: c}
	return a.Prints(a.Command(o, &cobra.Command{
		Use: c.use, Short: c.short, Long: c.long, Example: c.example,
	}, &o.args), pairsView{})
}

// Validate codes all arguments: a wrong one is wrong usage.
func (o *codingOptions) Validate() error {
	for _, arg := range o.args {
		p, result, err := o.code(arg)
		if err != nil {
			return err
		}
		o.pairs, o.results = append(o.pairs, p), append(o.results, result)
	}
	return nil
}

// Run prints the results, one a line.
func (o *codingOptions) Run(context.Context) error {
	return o.app.PrintNames(pairsView{o.pairs}, o.results)
}
