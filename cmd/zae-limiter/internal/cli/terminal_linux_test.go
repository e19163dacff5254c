package cli_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/zeroae/zae-limiter-go/cmd/zae-limiter/internal/cli"
)

// onTerminal runs the program with its output on a terminal, and returns what that shows.
func onTerminal(t *testing.T, columns uint16, args ...string) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(screen) // it ends with an error when the terminal is closed
		shown <- string(text)
	}()
	code := cli.Run(t.Context(), cli.Options{
		Args: args, Stdin: strings.NewReader(""), Stdout: terminal, Stderr: terminal, Getenv: func(string) string { return "" },
	})
	if err := terminal.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(<-shown, "\r\n", "\n")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	return text
}

// A terminal shows a name in one line, and obeys nothing in it.
func TestNamesOnATerminal(t *testing.T) {
	t.Parallel()
	ids := []string{"auth0Z_7C5f7c", "aZ_0Ab", "aZ_1B[31m", "Z_22aZ_22", "Z_FF", "Z_E2Z_80Z_AEa", "ZoZ_C3Z_AB"}
	want := "auth0|5f7c\n\"a\\nb\"\n\"a\\x1b[31m\"\n\"\\\"a\\\"\"\n\"\\xff\"\n\"\\u202ea\"\nZoë\n"
	for i, id := range ids {
		ids[i] = strings.ReplaceAll(id, "[", "Z_5B")
	}
	if got := onTerminal(t, 80, append([]string{"name", "decode"}, ids...)...); got != want {
		t.Errorf("got:\n%q\nwant:\n%q", got, want)
	}
}
