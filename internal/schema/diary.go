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

// removed returns the limits that the item lacks, in order: those whose count it still has, and
// those of which only the diary has something.
func (s *BucketScan) removed() (gone, past []string) {
	for l := range s.scanned {
		switch {
		case l.seen&(hasTokens|hasCapacity) == hasTokens|hasCapacity || l.Name == WCU || !knownLimit(l.Name):
		case l.Consumed != 0, l.seen&(isCounted|isKept) == isCounted|isKept: // 0 now, and more when the hour began
			gone = append(gone, strings.Clone(l.Name))
		case l.seen&isKept != 0:
			past = append(past, strings.Clone(l.Name))
		}
	}
	slices.Sort(gone)
	slices.Sort(past)
	return gone, past
}

// keep returns what the next turn of the item has to keep; nil if nothing. It is read before
// the limits that exist are picked out. The diary changes with the open hour only, and with
// the limits that have gone. So the diary of a known image of the same hour is returned, if
// none has gone.
func (s *BucketScan) keep(img, known *store.Image) *store.Diary {
	gone, past := s.removed()
	if known != nil && gone == nil && known.Hour == img.Hour && known.CreatedAt == img.CreatedAt && isRead(known.Diary, past) {
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
	if text == "" && gone == nil && past == nil {
		return nil
	}
	return &store.Diary{Text: strings.Clone(text), Room: diary.Room(s.diary.bytes), Gone: gone, Past: past}
}

// isRead reports whether a known diary, nil if there is nothing to keep, has been read, and has
// these limits in Past and none in Gone.
func isRead(known *store.Diary, past []string) bool {
	if known == nil {
		return past == nil
	}
	return len(known.Gone) == 0 && !known.Unread && slices.Equal(known.Past, past)
}
