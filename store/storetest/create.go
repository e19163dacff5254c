package storetest

import (
	"fmt"

	"github.com/zeroae/zae-limiter-go/store"
)

var createTests = []test{
	{"makes a bucket as given", func(k *kit) {
		c := k.newBucket()
		c.ExpiresAt = k.now/milli + 420
		c.Owner = store.Owner{Cascade: true, Parent: "project-1", Generation: 3, Incarnation: "0123456789abcdef"}
		c.Limits[0].Consumed, c.Limits[1].Tokens = 50*milli, -7
		c.Writes.Consumed = milli
		k.create(c)
	}},
	{"makes a bucket without limits", func(k *kit) {
		c := k.newBucket()
		c.Limits = nil
		k.create(c)
	}},
	{"makes a shard", func(k *kit) {
		c := k.newBucket()
		c.Shard, c.ShardCount = 3, 4
		k.create(c)
	}},
	{"refused: there is one, and it is handed back", func(k *kit) {
		winner := k.create(k.newBucket())
		loser := k.newBucket()
		loser.Now++
		loser.Limits = loser.Limits[:1]
		out, err := k.Create(k.Context(), loser)
		k.refused(out, err, winner)
	}},
	{"an expired bucket is still there", func(k *kit) {
		c := k.newBucket()
		c.ExpiresAt = k.now/milli - 3600
		img := k.create(c)
		out, err := k.Create(k.Context(), k.newBucket())
		k.refused(out, err, img)
	}},
	{"identifiers as long and as odd as they come", func(k *kit) {
		for _, b := range []store.Bucket{
			{Entity: "0", Resource: "a"},
			{Entity: "user@example.com:a-b_c.d", Resource: "vendor/model:2024-01-01_a.b"},
			{Entity: longest(256), Resource: longest(64)},
		} {
			c := k.newBucket()
			c.Bucket = b
			c.Limits = []store.NewLimit{holds(longest(64), rpm, milli)}
			k.create(c)
		}
	}},
}

// longest is an identifier of n characters.
func longest(n int) string { return fmt.Sprintf("a%0*d", n-1, 1) }
