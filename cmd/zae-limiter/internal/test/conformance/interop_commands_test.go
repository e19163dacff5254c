//go:build conformance

package conformance_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/internal/test/peers"
)

// peer runs a command of the Python package on the namespace, and returns what it prints.
func (b *both) peer(arguments ...string) string {
	b.Helper()
	namespace, _ := b.store.Namespace()
	arguments = append(arguments, "--name", b.table, "--namespace", namespace, "--region", peers.Region, "--endpoint-url", b.py.local.Endpoint)
	return b.peerOnly(arguments...)
}

// peerOnly is peer without the flags of a namespace.
func (b *both) peerOnly(arguments ...string) (out string) {
	b.Helper()
	b.py.do("command", args{"arguments": arguments}, &out)
	return out
}

// command runs a command of the Python package for user's bucket of gpt-4.
func (b *both) command(verb string, arguments ...string) {
	b.Helper()
	b.peer(append([]string{"entity", verb, "user", "--resource", "gpt-4"}, arguments...)...)
	b.fresh()
}

// printed runs a command of ours that succeeds, and decodes what it prints.
func (b *both) printed(into any, arguments ...string) {
	b.Helper()
	out, code := b.run(arguments...)
	if code != 0 {
		b.Fatalf("zae-limiter %v: exit code %d", arguments, code)
	}
	b.must(json.Unmarshal(out, into))
}

// lines are the lines of a text, in order: the peer shows limits in any.
func lines(text string) []string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(all)
	return all
}

// everyKind has a limit of each kind.
func (b *both) everyKind() []limiter.Limit {
	b.Helper()
	soft := limiter.PerHour("soft", 500)
	soft.Soft = true
	both := b.quota("both", 70, "month from day 15 at 06:30", "Europe/Berlin")
	both.Soft = true
	return []limiter.Limit{
		both, b.quota("day", 1000, "day", "Europe/Berlin"), limiter.PerMinute("rpm", 60, limiter.Burst(90)),
		b.quota("sess", 100, "session 5h", ""), soft,
		b.varying("varies", 100, "* 9-16 * * mon-fri x0.5; * 22-23 * * * capacity=600", "Europe/Berlin"),
	}
}

// shown is the command of both programs that shows the limits of a level.
func (l level) shown() []string {
	switch {
	case l.key.Entity != "":
		return []string{"entity", "get-limits", l.key.Entity, "--resource", l.key.Resource}
	case l.key.Resource != "":
		return []string{"resource", "get-defaults", l.key.Resource}
	}
	return []string{"system", "get-defaults"}
}

// entityCommand runs a command of either program for user and gpt-4.
func (b *both) entityCommand(byPython bool, verb string) {
	b.Helper()
	arguments := []string{"entity", verb, "user", "--resource", "gpt-4"}
	if byPython {
		b.peer(arguments...)
		return
	}
	if _, code := b.run(append(arguments, "--yes")...); code != 0 {
		b.Errorf("zae-limiter entity %s: exit code %d", verb, code)
	}
}

// pythonShows checks the switch of user for gpt-4 that Python's command shows; "" is none.
func (b *both) pythonShows(want string) {
	b.Helper()
	_, status, _ := strings.Cut(b.peer("entity", "get-limits", "user", "--resource", "gpt-4"), "Status: ")
	if got := strings.TrimSpace(status); got != want {
		b.Errorf("Python shows the status %q, want %q", got, want)
	}
}

// weShow checks the switch of user for gpt-4 that our command shows; nil is none.
func (b *both) weShow(disabled, bypassed *bool) {
	b.Helper()
	var got, want struct{ Disabled, Bypassed *bool }
	want.Disabled, want.Bypassed = disabled, bypassed
	b.printed(&got, "entity", "get-limits", "user", "--resource", "gpt-4")
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("Go shows (-want +got):\n%s", diff)
	}
}

// tree is a manifest of everything that a manifest can say.
func (b *both) tree() string {
	b.Helper()
	namespace, _ := b.store.Namespace()
	return fmt.Sprintf(`{"namespace": %q,
		"system": {"on_unavailable": "allow", "limits": {"rpm": {"capacity": 60, "soft": true}}},
		"resources": {
			"gpt-4": {"limits": {
				"day": {"capacity": 1000, "reset_schedule": [{"cron": "30 6 * * *", "tz": "Europe/Berlin"}]},
				"rpm": {"capacity": 60, "schedule": [{"cron": "* 9-16 * * 1-5", "tz": "Europe/Berlin", "scale": 0.5}]}}},
			"images": {"limits": {"rpm": {"capacity": 5}}, "disabled": true, "cascade": false}},
		"entities": {
			"project": {"parent": ""},
			"user": {"parent": "project", "cascade": true, "resources": {
				"gpt-4": {"limits": {"sess": {"capacity": 100, "reset_after_seconds": 18000}}, "disabled": "bypass"},
				"_default_": {"cascade": false}}}}}`, namespace)
}

// exports is the output of limits export.
func (b *both) exports(out []byte, code int) string {
	b.Helper()
	if code != 0 {
		b.Fatalf("exit code %d", code)
	}
	return string(out)
}

var commandCases = []interopCase{
	{"limits of every kind and level, as both show them", func(b *both) {
		for _, l := range []level{interopLevels[0], interopLevels[1], interopLevels[3]} {
			show := l.shown()
			b.py.call(l.set, l.with(b.everyKind()...), nil)
			toPython, toUs := b.peer(show...), json.RawMessage(nil)
			b.printed(&toUs, show...)
			if l.key == (limiter.ConfigKey{}) {
				b.must(b.store.SetSystem(b.Context(), b.everyKind(), ""))
			} else {
				b.must(b.store.SetLimits(b.Context(), l.key, b.everyKind()))
			}
			if diff := cmp.Diff(lines(toPython), lines(b.peer(show...))); diff != "" || len(lines(toPython)) < 9 {
				b.Errorf("Python shows of %v (-of its own +of ours):\n%s", l.key, diff)
			}
			var again json.RawMessage
			b.printed(&again, show...)
			if diff := cmp.Diff(string(toUs), string(again)); diff != "" || len(again) < 400 {
				b.Errorf("Go shows of %v (-of Python's +of its own):\n%s", l.key, diff)
			}
		}
	}},
	{"a soft limit that Python's command sets", func(b *both) {
		b.peer("entity", "set-limits", "user", "--resource", "gpt-4", "--limit", "rpm:10", "--limit", "tpm:5/hour", "--soft", "tpm")
		tpm := limiter.PerHour("tpm", 5)
		tpm.Soft = true
		b.agree(interopLevels[3], []limiter.Limit{limiter.PerMinute("rpm", 10), tpm})
	}},
	{"switches that the command of one sets, and that of the other shows and clears", func(b *both) {
		b.system(perDay("rpd", 500))
		b.enabled("user", "gpt-4")
		yes, no := true, false
		b.entityCommand(true, "disable")
		b.weShow(&yes, nil)
		b.InvalidateConfig()
		b.disabled("user", "gpt-4")
		b.entityCommand(false, "bypass")
		b.pythonShows("BYPASSED")
		b.InvalidateConfig()
		b.serves("user")
		b.entityCommand(true, "clear-disabled")
		b.weShow(nil, nil)
		b.InvalidateConfig()
		b.enabled("user", "gpt-4")
		b.entityCommand(false, "disable")
		b.pythonShows("DISABLED")
		b.entityCommand(true, "bypass")
		b.weShow(&no, &yes)
		b.InvalidateConfig()
		b.serves("user")
		b.entityCommand(false, "enable")
		b.pythonShows("enabled (explicit override)")
		b.InvalidateConfig()
		b.enabled("user", "gpt-4")
	}},
	{"parents and cascade policies that the command of one sets, and that of the other shows", func(b *both) {
		b.relatives(true)
		parent := func(want string) {
			b.Helper()
			var ours struct {
				Parent string `json:"parent_id"`
			}
			b.printed(&ours, "entity", "get", "user")
			if theirs := b.peer("entity", "show", "user"); ours.Parent != want || !slices.Contains(strings.Fields(theirs), want) {
				b.Errorf("Go shows %q, and Python\n%s\nwant %q", ours.Parent, theirs, want)
			}
		}
		b.peer("entity", "set-parent", "user", "--parent", "project-2")
		parent("project-2")
		b.all()
		b.paid(30, 15, 15)
		if _, code := b.run("entity", "set-parent", "user", "--parent", "project", "--yes"); code != 0 {
			b.Errorf("exit code %d", code)
		}
		parent("project")
		b.all()
		b.paid(45, 30, 15)
		b.peer("entity", "set-cascade", "user", "off")
		var level struct{ Cascade *bool }
		b.printed(&level, "entity", "get-limits", "user")
		if level.Cascade == nil || *level.Cascade {
			b.Errorf("Go shows the policy %v", level.Cascade)
		}
		b.all()
		b.paid(60, 30, 15)
		if _, code := b.run("entity", "set-cascade", "user", "on", "--yes"); code != 0 {
			b.Errorf("exit code %d", code)
		}
		b.all()
		b.paid(75, 45, 15)
	}},
	{"Python's manifest reader on an export of ours", func(b *both) {
		b.apply(b.tree())
		file := filepath.Join(b.TempDir(), "limits.yaml")
		b.must(os.WriteFile(file, []byte(b.exports(b.runs("limits", "export"))), 0o600))
		read := b.peerOnly("limits", "cfn-template", "--name", b.table, "--file", file)
		for _, want := range []string{
			"Cron: 30 6 * * *", "Tz: Europe/Berlin", "Cron: '* 9-16 * * 1-5'", "Scale: 0.5", "ResetAfterSeconds: 18000", "Soft: true",
			"Disabled: true", "Disabled: bypass", "OnUnavailable: allow",
		} {
			if !strings.Contains(read, want) {
				b.Errorf("Python does not read %q:\n%s", want, read)
			}
		}
		if n := strings.Count(read, "Cascade: false"); n != 2 || strings.Contains(read, "Parent") {
			b.Errorf("Python reads %d policies of cascades, or reads parents:\n%s", n, read)
		}
	}},
	{"an export of ours, applied by Python", func(b *both) {
		b.apply(b.tree())
		text := b.exports(b.run("limits", "export"))
		want := []string{"update entity", "update entity", "update resource", "update resource", "update system"}
		b.actions("Python", b.provision("plan", text), want...) // it compares whole items, see manifestCases
		namespace, _ := b.store.Namespace()
		b.apply(fmt.Sprintf(`{"namespace": %q}`, namespace))
		for i, change := range want {
			want[i] = strings.Replace(change, "update", "create", 1)
		}
		b.actions("Python", b.provision("apply", text), want...)
		if again := b.exports(b.run("limits", "export")); again != text {
			b.Errorf("what Python applied is exported as (-before +after):\n%s", cmp.Diff(text, again))
		}
	}},
}
