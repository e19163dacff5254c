package dynamo

import (
	"context"
	"slices"

	"github.com/zeroae/zae-limiter-go/dynamo/internal/expression"
	"github.com/zeroae/zae-limiter-go/dynamo/usage"
	"github.com/zeroae/zae-limiter-go/internal/calls"
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// turnWidth is the most limits of an item whose turn shares a write with something else:
// an expression has at most 300 operators.
const turnWidth = 16

// prepare makes a write ready to turn the diary of an item, and returns the turn that the
// write itself makes; nil if none. It is called before the write is described.
//
// A full text is saved first: it becomes a page, and the item begins another text. It is full
// earlier where it would make the item cost one more unit each write. If the
// page cannot be saved, the text grows. A page never changes, so two processes that turn
// save the same one. The turn of an item with very many limits is a write of its own.
//
// An unread diary is read. All of that waits for the store. If the caller must be able to leave, prepare sends nothing and
// fails with [calls.ErrApart].
func (s *Store) prepare(ctx context.Context, b store.Bucket, t *store.Turn) (*turning, error) {
	if t == nil {
		return nil, nil
	}
	d := t.Seen.Diary
	if d == nil {
		d = &store.Diary{}
	}
	full, wide := diary.IsFull(d.Text, d.Room), widthOf(t.Seen) > turnWidth
	if (full || wide || d.Unread) && calls.MustLeave(ctx) {
		return nil, calls.ErrApart
	}
	if d.Unread {
		return s.reread(ctx, b, t)
	}
	is := &turning{Turn: t, text: d.Text}
	if full && s.savePage(ctx, b, t.Seen) == nil {
		is.text = ""
	}
	if !wide {
		return is, nil
	}
	w := newBucketWrite(s, b)
	is.describe(&w.Write, nil)
	_, err := w.send(ctx, "turn", nil) // if another one has turned, that is as good
	return nil, err
}

// reread is prepare for an image whose diary is unread. Another writer may have turned.
func (s *Store) reread(ctx context.Context, b store.Bucket, t *store.Turn) (*turning, error) {
	loaded, err := s.Load(ctx, &store.Load{Bucket: &b, Consistent: true})
	if err != nil || loaded.Image == nil || loaded.Image.Hour != t.Seen.Hour || loaded.Image.CreatedAt != t.Seen.CreatedAt {
		return nil, err
	}
	return s.prepare(ctx, b, &store.Turn{Seen: loaded.Image, Hour: t.Hour, From: t.From})
}

// A turning is a turn with the text that the item keeps.
type turning struct {
	*store.Turn
	text string
}

// describe states the operations of a turn (ADR 039):
//
//	SET    dh; dc, dt; of every count, dp = count − do, do = count
//	if     dh and created as seen; the counts exist. Counts that are given are at most those of the item
//
// The values are those before the write. An item that replaces another one in the same hour has
// the same open hour, and not its text. An item without a diary has gained nothing that
// is known: its first turn only begins the hour. Limits that the write's changes add count from then on:
// one that was removed in the hour that closes keeps its count.
func (t *turning) describe(w *expression.Write, changes []store.Change) {
	if t == nil {
		return
	}
	seen := t.Seen
	w.Set(expression.Hour, w.Number(":dh", int64(t.Hour)))
	begins := seen.Hour == 0
	if begins {
		w.Require(expression.Hour.Absent())
	} else {
		was := w.Number(":dc", int64(seen.Hour))
		w.Require(expression.Hour.Equals(was))
		w.Set(expression.ClosedHour, was)
		w.Require(isMadeAt(w, seen.CreatedAt))
		if t.text != "" {
			w.Set(expression.DiaryText, w.Text(":dt", t.text))
		} else {
			w.Remove(expression.DiaryText)
		}
	}
	zero := w.Number(":d0", 0)
	turn := func(count, opened, gained expression.Attr) {
		if !begins {
			w.SetDifference(gained, count, opened, zero)
		}
		w.Copy(opened, count, zero)
	}
	turn(expression.Acquires, expression.AcquiresOpened, expression.AcquiresGained)
	for i := range seen.Limits {
		l := w.Limit(firstTurned+i, seen.Limits[i].Name)
		if t.From == nil {
			w.Require(l.Consumed().Exists()) // a peer removes a limit with its count
			turn(l.Consumed(), l.Opened(), l.Gained())
			continue
		}
		was, _ := t.From.Limit(seen.Limits[i].Name)
		from := l.Number('f', was.Consumed)
		w.Require(l.Consumed().AtLeast(from))
		if !begins {
			w.SetGainUntil(l.Gained(), from, l.Opened(), zero)
		}
		w.Set(l.Opened(), from)
	}
	if seen.Diary == nil {
		return
	}
	next := firstTurned + len(seen.Limits)
	for i, is := range seen.Diary.Removed {
		l := w.Limit(next+i, is.Name)
		w.Require(expression.EitherAbsent(l.Tokens(), l.Capacity())) // a peer writes parameters of limits that are not there
		switch comesBack := slices.ContainsFunc(changes, func(c store.Change) bool { return c.Limit == is.Name && c.Kind == store.AddLimit }); {
		case is.IsOpen && comesBack:
			turn(l.Consumed(), l.Opened(), l.Gained())
			continue
		case is.IsOpen:
			w.SetDifference(l.Gained(), l.Consumed(), l.Opened(), zero)
			w.Remove(l.Consumed())
		default:
			w.Remove(l.Gained())
		}
		w.Remove(l.Opened())
	}
}

// isMadeAt is the condition that an item was made at an instant; 0 is unknown.
func isMadeAt(w *expression.Write, at int64) expression.Condition {
	if at == 0 {
		return expression.Created.Absent()
	}
	return expression.Created.Equals(w.Number(":born", at))
}

// firstTurned is the number of the first limit of a turn: the write that turns has lower
// ones.
const firstTurned = 40

// widthOf is how many limits a turn names.
func widthOf(img *store.Image) int {
	if img.Diary == nil {
		return len(img.Limits)
	}
	return len(img.Limits) + len(img.Diary.Removed)
}

// savePage saves what the diary of an image has to keep as a page.
func (s *Store) savePage(ctx context.Context, b store.Bucket, img *store.Image) error {
	return s.usage.Save(ctx, usage.Diary{Bucket: b, Life: img.CreatedAt, Text: img.Diary.Text})
}

// addAcquire counts a write that takes tokens.
func addAcquire(w *expression.Write) { w.Add(expression.Acquires, w.Number(":dn", 1)) }
