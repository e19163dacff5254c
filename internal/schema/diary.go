package schema

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

// GainedAttr is the attribute with what a limit consumed in the closed hour, in
// millitokens. Of the limit "" it is a number of acquires.
func GainedAttr(limit string) string { return gainedPrefix + limit }
