package estimate

import "github.com/zeroae/zae-limiter-go/store"

// ItemBytes are about the bytes of a bucket's item that has been used in several hours, without the
// text of its diary: those of its names, which are in keys and indexes, and of numbers of a
// usual length. One process has used it, and has reserved there what goes back if it is lost, unless that
// would cost a unit. The name parent is "" for an entity that does not cascade.
func ItemBytes(entity, resource, parent string, limits []store.Limit) int {
	const (
		base, copies     = 301, 5 // names of an entity and a resource are in five attributes
		perLimit, fields = 49, 7  // each limit has seven attributes, two of them of the diary
		owner            = 50
		perQuota, texts  = 16, 2 // the names of its calendar's and its grant's attributes, without the limit's
		// the names and values of a session's attributes, and the name and value of the end of
		// the period
		perSession, sessionTexts, perEnd = 43, 4, 10

		// the names of what a quota carries and has carried, without the limit's, and their values
		perCarry, carryTexts = 24, 2

		perSchedule = 8  // the name of its attribute, without the limit's
		perReserved = 22 // the name of what a process has reserved, without the limit's, and the value
		perZone     = 18 // the names of the zone and of the end of the period, and that end
	)
	bytes := base + copies*(len(entity)+len(resource))
	if parent != "" {
		bytes += owner + len(parent)
	}
	zone, hasSession, reserved := "", false, 0
	for i := range limits {
		l := &limits[i]
		bytes += perLimit + fields*len(l.Name)
		if l.Renews != nil {
			code, isCalendar := l.Renews.Encode()
			if isCalendar {
				zone = l.Renews.Zone()
				bytes += perQuota + texts*len(l.Name) + len(code)
				if l.Carries != (store.Carry{}) {
					bytes += perCarry + carryTexts*len(l.Name)
				}
			} else {
				hasSession = true
				bytes += perSession + sessionTexts*len(l.Name)
			}
		}
		if l.Varies != nil {
			zone = l.Varies.Zone()
			bytes += perSchedule + len(l.Name) + len(l.Varies.Encode())
		}
		if l.Returns > 0 {
			reserved += perReserved + len(l.Name)
		}
		bytes += modeBytes(l)
	}
	switch {
	case zone != "":
		bytes += perZone + len(zone)
	case hasSession:
		bytes += perEnd
	}
	if unitsOf(bytes+reserved) > unitsOf(bytes) {
		return bytes
	}
	return bytes + reserved
}

// modeBytes are the bytes of what says that a limit refuses nobody.
func modeBytes(l *store.Limit) (bytes int) {
	const (
		perSoft = 15 // the name of its stamp's attribute, without the limit's, and the stamp
		perMode = 7  // the name of its attribute, without the limit's
		// the names of what a limit in shadow would have refused, and when, and their values
		perShadow, shadowTexts = 26, 2
	)
	if !l.Refuses() {
		bytes += perSoft + len(l.Name)
	}
	if l.Mode != store.Enforce {
		bytes += perMode + len(l.Name) + len(l.Mode.String())
	}
	if l.Mode == store.Shadow {
		bytes += perShadow + shadowTexts*len(l.Name)
	}
	return bytes
}

// itemBytes is the size of an item whose limits have names of three characters, and whose
// entity and resource have about twenty together.
func itemBytes(limits int) int {
	const entity, resource = "entity-01234567", "model"
	of := make([]store.Limit, limits)
	for i := range of {
		of[i].Name = "tpm"
	}
	return ItemBytes(entity, resource, "", of)
}
