package schema

import (
	"slices"
	"strings"

	"github.com/zeroae/zae-limiter-go/internal/diary"
	"github.com/zeroae/zae-limiter-go/store"
)

// Names of the attributes of a bucket item that keep its diary: what the bucket consumed in
// each hour. They change together, in the first write of a new hour.
const (
	OpenHour   = "dh" // N, the hour that the item counts now, in hours since the epoch
	ClosedHour = "dc" // N, the hour that was closed last; absent if none was
	DiaryText  = "dt" // S, the hours before the closed one, see package diary; also of a page
	Acquires   = "dn" // N, acquires since the item was made
)

const (
	openedPrefix = "do_"
	gainedPrefix = "dp_"
)

// OpenedAttr is the attribute with a limit's count of consumed tokens when the open hour
// began, in millitokens; absent if the count was 0. Of the limit "" it is the count of
// acquires.
func OpenedAttr(limit string) string { return openedPrefix + limit }

// OpenedLimit returns the limit of an attribute that [OpenedAttr] names; not of acquires.
func OpenedLimit(attr string) (limit string, is bool) {
	limit, is = strings.CutPrefix(attr, openedPrefix)
	return limit, is && store.CheckLimitName(limit) == nil
}

// GainedAttr is the attribute with what a limit consumed in the closed hour, in
// millitokens. Of the limit "" it is a number of acquires.
func GainedAttr(limit string) string { return gainedPrefix + limit }

// A diaryScan is the diary of a bucket item, as far as it is not of a limit.
type diaryScan struct {
	text     string
	closed   int64
	bytes    int   // of the item without the text
	acquires int64 // in the closed hour
}

// scanned yields every limit of which the item has something.
func (s *BucketScan) scanned(yield func(*limitScan) bool) {
	for _, part := range [][]limitScan{s.limits[:s.used], s.more} {
		for i := range part {
			if !yield(&part[i]) {
				return
			}
		}
	}
}

// removed returns the limits that the item lacks and of which it has something, by name.
func (s *BucketScan) removed() (removed []store.RemovedLimit) {
	for l := range s.scanned {
		if l.exists() || l.Name == WCU || !knownLimit(l.Name) || l.seen&isKept == 0 && l.Consumed == 0 {
			continue
		}
		removed = append(removed, store.RemovedLimit{Name: strings.Clone(l.Name), IsOpen: l.seen&isCounted != 0})
	}
	slices.SortFunc(removed, func(a, b store.RemovedLimit) int { return strings.Compare(a.Name, b.Name) })
	return removed
}

// keep returns what the next turn of the item has to keep; nil if nothing. It is read before
// the limits that exist are picked out. The diary changes with the open hour and the
// limits that were removed only. So the diary of a known image is returned, if these are equal.
func (s *BucketScan) keep(img, known *store.Image) *store.Diary {
	removed := s.removed()
	if known != nil && known.Hour == img.Hour && known.CreatedAt == img.CreatedAt && isRead(known.Diary, removed) {
		return known.Diary
	}
	text := s.diary.text
	if s.diary.closed != 0 {
		amounts := make([]store.Amount, 0, typicalLimits)
		amounts = append(amounts, store.Amount{Milli: s.diary.acquires})
		for l := range s.scanned {
			amounts = append(amounts, store.Amount{Limit: l.Name, Milli: l.gained})
		}
		slices.SortFunc(amounts, func(a, b store.Amount) int { return strings.Compare(a.Limit, b.Limit) })
		text = diary.Append(text, diary.Entry{Hour: int32(s.diary.closed), Amounts: amounts}) //nolint:gosec // hours fit
	}
	if text == "" && removed == nil {
		return nil
	}
	return &store.Diary{Text: strings.Clone(text), Room: diary.Room(s.diary.bytes), Removed: removed}
}

// isRead reports whether a known diary, nil if there is nothing to keep, has been read, and has
// these removed limits.
func isRead(known *store.Diary, removed []store.RemovedLimit) bool {
	if known == nil {
		return removed == nil
	}
	return !known.Unread && slices.Equal(known.Removed, removed)
}
