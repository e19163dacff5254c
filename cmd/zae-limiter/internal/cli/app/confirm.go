package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// ErrDeclined ends a command that was not confirmed.
var ErrDeclined = errors.New("not confirmed, nothing was changed")

// A Confirmation asks before the command changes or destroys anything.
type Confirmation struct {
	app *App
	yes bool
}

// Confirmation adds to a command the flag --yes, which answers the question.
func (a *App) Confirmation(cmd *cobra.Command) *Confirmation {
	c := &Confirmation{app: a}
	cmd.Flags().BoolVarP(&c.yes, "yes", "y", false, "skip the confirmation")
	return c
}

// Given reports whether the flag --yes was given.
func (c *Confirmation) Given() bool { return c.yes }

// Validate fails if there is nobody to ask.
func (c *Confirmation) Validate() error {
	if c.yes {
		return nil
	}
	return c.app.canAsk("--yes")
}

// Show writes what the question is about to standard error. With JSON output nothing is
// asked, and it writes nothing.
func (c *Confirmation) Show(text string) {
	if !c.app.Flags.JSON() {
		_, _ = io.WriteString(c.app.Stderr, text) // the question that follows fails, too
	}
}

// Ask returns nil if the answer to a question is yes.
func (c *Confirmation) Ask(ctx context.Context, question string) error {
	if c.yes {
		return nil
	}
	line, err := c.app.ask(ctx, question+" [y/N] ")
	if err != nil {
		return err
	}
	switch strings.ToLower(line) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

// A NameConfirmation asks for the name of what the command destroys.
type NameConfirmation struct {
	app  *App
	name string
}

// NameConfirmation adds to a command the flag --confirm, which answers the question.
func (a *App) NameConfirmation(cmd *cobra.Command) *NameConfirmation {
	c := &NameConfirmation{app: a}
	cmd.Flags().StringVar(&c.name, "confirm", "", "`name` of what is to be deleted, instead of typing it when asked")
	return c
}

// Validate fails if there is nobody to ask, or if the flag names something else.
func (c *NameConfirmation) Validate(name string) error {
	switch c.name {
	case name:
		return nil
	case "":
		return c.app.canAsk("--confirm " + name)
	}
	return fmt.Errorf("invalid --confirm %q: give %q, the name of what is to be deleted", c.name, name)
}

// Ask returns nil if the answer to a question is the name.
func (c *NameConfirmation) Ask(ctx context.Context, question, name string) error {
	if c.name == name {
		return nil
	}
	line, err := c.app.ask(ctx, question+" Type its name: ")
	if err != nil {
		return err
	}
	if line != name {
		return ErrDeclined
	}
	return nil
}

// canAsk fails if no question can be asked. flag is what answers the question beforehand. A
// program that reads JSON gets nothing else, so it is not asked.
func (a *App) canAsk(flag string) error {
	switch {
	case !a.Terminal:
		return errors.New("there is no terminal to ask for confirmation on: give " + flag)
	case a.Flags.JSON():
		return errors.New("with --output json nothing is asked: give " + flag)
	}
	return nil
}

// ask reads the answer to a question from the terminal.
func (a *App) ask(ctx context.Context, question string) (string, error) {
	if _, err := fmt.Fprint(a.Stderr, question); err != nil {
		return "", fmt.Errorf("%w: cannot ask: %w", ErrDeclined, err)
	}
	answer := make(chan string, 1)
	go func() { // outlives an interrupt: a read from a terminal cannot be canceled
		line, _ := bufio.NewReader(a.Stdin).ReadString('\n') // the text before an error is the answer
		answer <- line
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.Stderr) // the error begins a line
		return "", fmt.Errorf("%w: %w", ErrDeclined, ctx.Err())
	case line := <-answer:
		return strings.TrimSpace(line), nil
	}
}
