package locust

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// attend works for the master on one connection, until that ends or the worker is to end.
// The error says which. running is the context of users.
func (w *Worker) attend(ctx, running context.Context, l *link) error {
	beat, report := time.NewTicker(beatInterval), time.NewTicker(reportInterval)
	defer beat.Stop()
	defer report.Stop()
	w.greeted = time.Time{}
	if err := w.beat(ctx, l); err != nil {
		return err
	}
	for leave := ctx.Done(); ; {
		var err error
		select {
		case <-leave:
			leave = nil
			if w.ended == nil {
				w.ended = w.users.stop(w.grace)
			}
		case frame, ok := <-l.in:
			if !ok {
				return fmt.Errorf("read from the master: %w", l.err)
			}
			w.heard, l.heard = w.o.Now(), true
			err = w.hear(running, l, frame)
		case <-beat.C:
			err = w.beat(ctx, l)
		case <-report.C:
			err = w.report(l)
		case <-w.ended:
			if ctx.Err() != nil {
				return errors.Join(context.Cause(ctx), w.leave(l))
			}
			err = w.stopped(running, l)
		}
		if err != nil {
			return err
		}
	}
}

func (w *Worker) send(l *link, kind string, data any) error {
	frame, err := encode(kind, data, w.id)
	if err != nil {
		return err
	}
	if err := l.send(frame, w.o.Now()); err != nil {
		return fmt.Errorf("send %s to the master: %w", kind, err)
	}
	return nil
}

// beat sends a heartbeat, or announces a worker that the master does not know yet.
func (w *Worker) beat(ctx context.Context, l *link) error {
	now := w.o.Now()
	lost := now.Sub(w.heard)
	if !w.known {
		switch {
		case lost >= w.o.Patience:
			return &UnreachableError{Master: w.o.Master, For: w.o.Patience}
		case now.Sub(w.greeted) < greetInterval:
			return nil
		}
		w.greeted = now
		w.log.InfoContext(ctx, "worker announces itself", "master", w.o.Master, "worker", w.id)
		return w.send(l, "client_ready", anyVersion)
	}
	switch {
	case !l.heard && now.Sub(l.since) >= unknownAfter:
		return errUnknown
	case lost >= silentAfter:
		return errSilent
	}
	percent, memory := w.usage.sample(now)
	return w.send(l, "heartbeat", heartbeat{State: w.state, CPU: percent, Memory: memory})
}

// report sends what happened since the last report. On a new connection it waits until the
// master has answered: a master that does not know the worker would count its requests.
func (w *Worker) report(l *link) error {
	if !w.known || !l.heard {
		return nil
	}
	r, counts := w.stats.take(w.o.Now()), w.users.counts()
	r.ClassesCount, r.UserCount = counts.ClassesCount, counts.UserCount
	err := w.send(l, "stats", r)
	if err != nil {
		w.stats.restore(r)
	}
	return err
}

// leave says farewell when the worker ends by itself and its users have stopped. Without it,
// the master would notice the missing heartbeats.
func (w *Worker) leave(l *link) error {
	return errors.Join(w.report(l), w.send(l, "quit", nil))
}

// hear handles a message. What is not understood is ignored.
func (w *Worker) hear(ctx context.Context, l *link, frame []byte) error {
	m, err := parse(frame)
	if err != nil {
		w.ignore(ctx, err)
		return nil
	}
	switch m.kind {
	case "ack":
		w.acknowledged(ctx, &m)
	case "spawn", "stop":
		if w.ended != nil {
			w.later = append(w.later, m)
			return nil
		}
		return w.obey(ctx, l, &m)
	case "quit":
		_ = w.report(l) // the master is about to end, too
		<-w.users.stop(min(w.grace, quitGrace))
		_ = w.report(l)
		return errQuit
	case "reconnect":
		return errReconnect
	case "heartbeat", "spawning_complete":
	case "update_user_class":
		// It changes the weight or number of a class, which the master applies, and tasks and
		// host, which the load does not have.
		w.log.InfoContext(ctx, "change of a user class ignored: the load says what users do")
	default:
		w.log.InfoContext(ctx, "message of the master ignored", "type", m.kind)
	}
	return nil
}

func (w *Worker) ignore(ctx context.Context, err error) {
	w.log.WarnContext(ctx, "message of the master ignored", "error", err)
}

func (w *Worker) acknowledged(ctx context.Context, m *message) {
	if index, ok := m.index(); ok {
		w.index = index
	}
	if !w.known {
		w.log.InfoContext(ctx, "master acknowledges the worker", "master", w.o.Master, "worker", w.id, "index", w.index)
	}
	w.known = true
}

// obey handles messages that change the users.
func (w *Worker) obey(ctx context.Context, l *link, m *message) error {
	if m.kind == "stop" {
		w.log.InfoContext(ctx, "master stops the test")
		w.ended = w.users.stop(w.grace)
		return nil
	}
	o, err := m.order()
	if err != nil {
		w.ignore(ctx, err)
		return nil
	}
	if err := w.send(l, "spawning", nil); err != nil {
		return err
	}
	if o.Timestamp <= w.ordered {
		w.log.InfoContext(ctx, "spawn message ignored: a younger one came before")
		return nil
	}
	w.ordered, w.grace = o.Timestamp, o.grace()
	isNew := w.state != stateRunning
	if isNew {
		w.stats.clear(w.o.Now())
		w.users.begin(w.index)
	}
	w.state = stateSpawning
	unknown := w.users.set(ctx, o.Users, w.grace)
	w.log.InfoContext(ctx, "users set", "counts", w.users.counts().ClassesCount)
	if len(unknown) > 0 && isNew {
		if err := w.complain(ctx, l, unknown); err != nil {
			return err
		}
	}
	w.state = stateRunning
	return w.send(l, "spawning_complete", w.users.counts())
}

// complain tells the master about classes that the load does not have. The master shows it
// among the exceptions, and counts fewer users than it asked for.
func (w *Worker) complain(ctx context.Context, l *link, unknown []string) error {
	has := slices.Sorted(slices.Values(w.users.names))
	text := fmt.Sprintf("the locustfile has user classes that the load does not have: %s. Rename them: the load has %s",
		strings.Join(unknown, ", "), strings.Join(has, ", "))
	w.log.ErrorContext(ctx, "locustfile does not fit the load", "unknown", unknown, "known", has)
	return w.send(l, "exception", exception{text, text})
}

// stopped tells the master that the users have stopped, and is ready for the next test.
func (w *Worker) stopped(ctx context.Context, l *link) error {
	for _, say := range []func() error{
		func() error { return w.report(l) },
		func() error { return w.send(l, "client_stopped", nil) },
		func() error { return w.send(l, "client_ready", anyVersion) },
	} {
		if err := say(); err != nil {
			return err // on the next connection, all of it is said again
		}
	}
	w.ended, w.state = nil, stateReady
	later := w.later
	w.later = nil
	for i := range later {
		if w.ended != nil {
			w.later = append(w.later, later[i])
			continue
		}
		if err := w.obey(ctx, l, &later[i]); err != nil {
			return err
		}
	}
	return nil
}
