package plan

import (
	"slices"

	"github.com/zeroae/zae-limiter-go/store"
)

// WholeSet returns a bucket's shards by number, nil where one is missing.
func WholeSet(shards []*store.Image) []*store.Image {
	count := 0
	for _, img := range shards {
		count = max(count, img.ShardCount, img.Shard+1)
	}
	if count == len(shards) {
		return shards
	}
	whole := make([]*store.Image, count)
	for _, img := range shards {
		whole[img.Shard] = img
	}
	return whole
}

// MissingOf returns the shards of a bucket that have no image, and whose share no
// other image still holds.
func MissingOf(shards []*store.Image) (missing []int) {
	for i, img := range shards {
		if img == nil && holdersOf(shards, i) == 0 {
			missing = append(missing, i)
		}
	}
	return missing
}

// IsWhole reports whether images are those of all shards of a bucket as they were at
// one time, as far as that can be told. It checks that exactly one image holds the
// share of each shard that could exist.
func IsWhole(images []*store.Image) bool {
	for i := range CountOf(images) {
		if holdersOf(images, i) != 1 {
			return false
		}
	}
	return len(images) > 0
}

// holdersOf counts the images that hold the share of a shard.
func holdersOf(images []*store.Image, shard int) (n int) {
	for _, img := range images {
		if img != nil && shard%img.ShardCount == img.Shard {
			n++
		}
	}
	return n
}

// CountOf is the largest number of shards that any image has, or that its shard number
// implies.
func CountOf(images []*store.Image) (count int) {
	for _, img := range images {
		for count = max(count, img.ShardCount); count <= img.Shard; count *= 2 {
		}
	}
	return count
}

// AreStamped reports whether images have properties that a new shard could not copy: a peer's or an
// operator's. Such a set is left as it is.
func AreStamped(images []*store.Image) bool {
	return slices.ContainsFunc(images, func(img *store.Image) bool { return !WasPlain(img, img.RefilledAt) })
}

// AreEven reports whether images agree about the number of shards.
func AreEven(images []*store.Image) bool {
	return !slices.ContainsFunc(images, func(img *store.Image) bool { return img.ShardCount != images[0].ShardCount })
}
