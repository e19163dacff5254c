package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// Validate fails if there is no one to ask.
func (c *Confirmation) Validate() error {
	if !c.yes && !c.app.Terminal {
		return errors.New("there is no terminal to ask for confirmation on: give --yes")
	}
	return nil
}

// Ask returns nil if the answer to a question is yes.
func (c *Confirmation) Ask(ctx context.Context, question string) error {
	if c.yes {
		return nil
	}
	if _, err := fmt.Fprintf(c.app.Stderr, "%s [y/N] ", question); err != nil {
		return fmt.Errorf("%w: cannot ask: %w", ErrDeclined, err)
	}
	answer := make(chan string, 1)
	go func() { // outlives an interrupt: a read from a terminal cannot be canceled
		line, _ := bufio.NewReader(c.app.Stdin).ReadString('\n') // the text before an error is the answer
		answer <- line
	}()
	select {
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrDeclined, ctx.Err())
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return ErrDeclined
	}
}
