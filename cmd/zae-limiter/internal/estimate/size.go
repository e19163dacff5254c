package estimate

// ItemBytes are about the bytes of a bucket's item that has been used in several hours, without the
// text of its diary: those of its names, which are in keys and indexes, and of numbers of a
// usual length. The name parent is "" for an entity that does not cascade.
func ItemBytes(entity, resource, parent string, limits []string) int {
	const (
		base, copies     = 301, 5 // names of an entity and a resource are in five attributes
		perLimit, fields = 49, 7  // each limit has seven attributes, two of them of the diary
		owner            = 50
	)
	bytes := base + copies*(len(entity)+len(resource))
	if parent != "" {
		bytes += owner + len(parent)
	}
	for _, name := range limits {
		bytes += perLimit + fields*len(name)
	}
	return bytes
}

// itemBytes is the size of an item whose limits have names of three characters, and whose
// entity and resource have about twenty together.
func itemBytes(limits int) int {
	const entity, resource = "entity-01234567", "model"
	names := make([]string, limits)
	for i := range names {
		names[i] = "tpm"
	}
	return ItemBytes(entity, resource, "", names)
}
