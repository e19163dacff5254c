package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	limiter "github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
)

// A grant is what an operator's command is to give a bucket: it resets limits, or adds tokens
// to some.
type grant struct {
	bucketKey

	resets  bool
	amounts map[string]int64 // in tokens, by limit; a reset has 0
	key     string           // the same for all calls of one command
}

// granterName begins the names of the processes in which an operator resets and tops up.
const granterName = "granter"

// grant lets an operator reset and top up buckets while they are in use. He gives a command
// again, with its key, until he has learned that it was carried out, also from another
// process after his own has died. Now and then he gives it once more.
func (p *play) grant() {
	r := p.w.dice.stream("grant")
	c := p.operator(0)
	commands := 0
	for round := range rounds {
		p.sleepUntil(p.start[round] + span(r, 0, 5*time.Second))
		for range 1 + r.IntN(4) {
			p.w.sleep(span(r, 10*time.Millisecond, 4*time.Second))
			commands++
			g := p.drawGrant(r.Uint64(), commands, round)
			again := r.IntN(3) == 0
			for try := range 6 {
				if c.standsStill() {
					c = p.operator(len(p.cast))
				}
				var err error
				ended := make(chan error, 1)
				p.workers.Go(func() { ended <- c.carryOut(g, try) })
				select {
				case err = <-ended:
				case <-c.dead:
					err = errCrashed
				}
				done := err == nil || errors.Is(err, limiter.ErrNotFound) || errors.Is(err, limiter.ErrNotConfigured)
				if done && !again {
					break
				}
				again = again && !done
				p.w.sleep(span(r, time.Millisecond, 700*time.Millisecond))
			}
		}
	}
}

// operator starts a process of an operator.
func (p *play) operator(n int) *client {
	c := newClient(p.w, granterName+strconv.Itoa(n), p.ttl)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cast = append(p.cast, c)
	return c
}

func (p *play) drawGrant(seed uint64, n, round int) *grant {
	r := dice(seed).stream("grant")
	g := &grant{bucketKey: pick(r, p.spots[round], pick(r, spots...)), resets: r.IntN(2) == 0, amounts: map[string]int64{}, key: fmt.Sprint("command-", n)}
	names := offered[g.resource]
	for range 1 + r.IntN(2) {
		name := pick(r, names...)
		if g.amounts[name] = 0; !g.resets {
			g.amounts[name] = 1 + r.Int64N(typical[name])
		}
	}
	return g
}

// carryOut is one call of a command.
func (c *client) carryOut(g *grant, try int) error {
	k := &call{name: fmt.Sprintf("%s/%s.%d", c.name, g.key, try), kind: administering, client: c, grant: g, req: limiter.Request{Entity: g.entity, Resource: g.resource}}
	ctx, cancel := context.WithTimeout(k.begin(c.w), storeTimeout)
	defer cancel()
	cause := dynamo.Cause{Key: g.key}
	var err error
	if g.resets {
		r := dynamo.Reset{Entity: g.entity, Resource: g.resource, Cause: cause}
		for name := range g.amounts {
			r.Limits = append(r.Limits, name)
		}
		slices.Sort(r.Limits)
		_, err = c.store.ResetBucket(ctx, r)
	} else {
		_, err = c.store.TopUpBucket(ctx, dynamo.TopUp{Entity: g.entity, Resource: g.resource, Amounts: g.amounts, Cause: cause})
	}
	k.finish(c.w, err)
	return err
}

// isGrant reports whether a write is a shard's part of a reset or a top-up.
func (w *write) isGrant() bool {
	return w.call != nil && w.call.grant != nil && w.joint && w.other == nil && w.before != nil && w.after != nil
}

// legalGrant: what an operator gives is a refill of each shard. Nothing is consumed. A reset
// makes a balance its share, less what was taken since it was read. A top-up raises a quota's
// balance and bound by the same, and fills a rate at most.
func (c *checker) legalGrant(r *write, bad func(string, ...any)) {
	a, b, g := r.before, r.after, r.call.grant
	if b.rf < a.rf {
		bad("an operator moved the stamp back from %d to %d", a.rf, b.rf)
	}
	for _, name := range names(a, b) {
		was, had := a.share(r.id, name)
		is, has := b.share(r.id, name)
		amount, named := g.amounts[name]
		switch {
		case !has:
		case name == hidden:
			legalHidden(was, is, a.rf, b.rf, 1000, bad)
		case !had:
			is.tc -= was.tc
			if !named {
				legalOpening(name, is, bad)
			}
		case is.tc != was.tc:
			bad("%s: an operator consumed %d", name, is.tc-was.tc)
		case !named:
			if want := was.carried(a.rf, b.rf, is); is.tk > want {
				bad("%s: %d at %d is %d at %d, must be at most %d", name, was.tk, a.rf, is.tk, b.rf, want)
			}
		case g.resets:
			taken, _ := c.moved(r.id, name, r.call.start-storeTimeout, r.at)
			full := min(is.full, is.cp)
			if is.varies != nil && is.renews == nil {
				full = is.cp
			}
			if is.tk > full || is.tk < full-taken || is.topped != 0 {
				bad("%s is reset to %d of %d, topped up by %d, while %d were taken", name, is.tk, full, is.topped, taken)
			}
			if is.renews != nil && is.resets <= was.resets {
				bad("the reset of %s was not counted", name)
			}
		case is.renews != nil:
			plain := is
			topped := is.topped - was.toppedAt(a.rf, b.rf)
			plain.topped -= topped
			plain.cp -= topped
			want := was.carried(a.rf, b.rf, plain) + topped
			if is.tk > want || topped < 0 || topped > amount*1000 {
				bad("%s: %d at %d is %d at %d after %d of %d were added, must be at most %d", name, was.tk, a.rf, is.tk, b.rf, topped, amount*1000, want)
			}
		default:
			if want := was.carried(a.rf, b.rf, is); is.tk > want+amount*1000 {
				bad("%s: %d at %d is %d at %d, at most %d were to be added", name, was.tk, a.rf, is.tk, b.rf, amount*1000)
			}
		}
	}
}

// grantedOnce: all calls of one command write to a bucket once. All shards together get what
// it says: of a quota the whole, of a rate at most. An entity that was made again begins
// without commands.
func (c *checker) grantedOnce() {
	given, times := map[string]map[string]int64{}, map[string]time.Duration{}
	for _, r := range c.log {
		if r.failed || !r.isGrant() || r.call.grant.resets {
			continue
		}
		g := r.call.grant
		if at, again := times[g.key]; again && at != r.at {
			if _, remade := c.play.remade[g.entity]; !remade {
				c.violate("once", r.at, &r.id, "%s was carried out at %v already", g.key, at)
			}
			delete(given, g.key)
		}
		times[g.key] = r.at
		if given[g.key] == nil {
			given[g.key] = map[string]int64{}
		}
		for name := range g.amounts {
			was, had := r.before.share(r.id, name)
			is, _ := r.after.share(r.id, name)
			gave := is.tk - was.carried(r.before.rf, r.after.rf, is)
			if !had {
				gave = is.tk - is.cp // the configuration gives the limit
			}
			if is.renews != nil {
				gave = is.topped - was.toppedAt(r.before.rf, r.after.rf)
			}
			given[g.key][name] += gave
			if sum := given[g.key][name]; sum > g.amounts[name]*1000 {
				c.violate("once", r.at, &r.id, "%s gives %d of %s, %d were to be given", g.key, sum, name, g.amounts[name]*1000)
			}
		}
	}
}
