package plan

import (
	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// TurnOf is how a write at an instant turns the diary of an item to that instant's hour
// (ADR 039); nil if the hour is open already, or a later one. A stamp far ahead of every
// honest clock turns nothing.
//
// Of several writers that turn, the first one does, and the others are refused: their
// condition is the hour that they saw. A write without a turn is never refused, so what
// others write in the old hour's last moments lands, and counts in the hour that is open
// when it arrives:
//
//	this process   image: hour 9 ──────────── turns to 10 ──▶
//	another one              takes in hour 9 ────────────────── arrives: counts in 10
func TurnOf(img *store.Image, now int64) *store.Turn {
	if hour := diary.HourOf(now); hour > img.Hour {
		return &store.Turn{Seen: img, Hour: hour}
	}
	return nil
}
