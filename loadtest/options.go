package loadtest

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/zeroae/zae-limiter-go"
	"github.com/zeroae/zae-limiter-go/dynamo"
	"github.com/zeroae/zae-limiter-go/store"
)

// A Scenario is a kind of load.
type Scenario string

// The scenarios.
const (
	// Warm acquires from buckets that exist and that the limiter knows.
	Warm Scenario = "warm"
	// Cascade acquires from entities and their parents, one parent for 32.
	Cascade Scenario = "cascade"
	// Refused acquires from buckets that are exhausted.
	Refused Scenario = "refused"
	// Hot acquires from one bucket with many clients.
	Hot Scenario = "hot"
	// Spread acquires from many buckets with many clients.
	Spread Scenario = "spread"
	// LLM reserves requests and tokens of one of eight models, and settles to
	// the tokens that were used, less than those reserved.
	LLM Scenario = "llm"
	// Attack is the one of GHSA-76rv-2r9v-c5m6: one entity at 5,000 requests a
	// second against limits far above that, beside neighbours at 10 each. It is
	// run against one bare item for each entity, on a table as the advisory knew
	// it; against the limiter, the attacker in another process than the
	// neighbours; and in the same one.
	Attack Scenario = "attack"
)

// Scenarios are all scenarios.
func Scenarios() []Scenario { return []Scenario{Warm, Cascade, Refused, Hot, Spread, LLM, Attack} }

// Options say what to run, and on what. API, Table and Scenario are required.
type Options struct {
	Scenario Scenario
	// API is the DynamoDB. Its own retries are part of what is measured, and
	// what it repeats on its own counts as one request.
	API dynamo.API
	// Table is made if it does not exist, and so is, for Attack, one of the same
	// name with "-bare" appended, whose GSI2 projects whole items. Neither is
	// deleted.
	Table string
	// Namespace is registered for the run; "" is bench- and eight random
	// characters. Its items are deleted afterwards, and its name too.
	Namespace string
	// Keep leaves the namespace and its items where they are.
	Keep bool

	// Duration is how long is measured, and for Attack, how long each of its phases
	// lasts. Default 10 s.
	Duration time.Duration
	// WarmUp is how long the load runs before it is measured. Default: not at all.
	WarmUp time.Duration
	// Rate is how many operations are due each second. Default: a closed
	// loop, in which clients go on when they have their answer; for Attack 5,000,
	// the attacker's.
	Rate int64
	// Clients is the number of goroutines, so of operations at a time, for
	// Attack those of the attacker. Default 64; 1 for Warm, Cascade and Refused, 256 for
	// Attack.
	Clients int
	// Limiters is how many limiters the clients share, each with a store and a
	// memory of its own, as in that many processes. Default 1.
	Limiters int
	// Entities is how many entities are drawn from, for Attack the number of
	// neighbours. Default 256; 1 for Hot, 1,000 for Spread, 64 for LLM, 20 for
	// Attack.
	Entities int
	// Seed chooses the entities, models and amounts: the n-th operation asks
	// for the same in every run.
	Seed uint64
	// Limits replace those of the scenario, which are far above what it asks
	// for but for Refused. One token of each is asked for, and of one called "tpm",
	// for LLM, some hundreds.
	Limits []limiter.Limit
	// Raw runs, after the limiter, the same load as bare conditional
	// UpdateItems: one for an operation, on an item of the shape of the entity's bucket.
	Raw bool

	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Logger gets what limiters cannot return; nil discards it.
	Logger *slog.Logger
	// Progress, if not nil, is told from time to time how much of the planned
	// time is over. It is not called by two goroutines at a time.
	Progress func(done, planned time.Duration)
}

const (
	maxDuration   = 24 * time.Hour
	maxRate       = 1_000_000
	maxClients    = 100_000
	maxLimiters   = 1_000
	maxEntities   = 100_000
	maxTableName  = 255
	neighbourRate = 10 // operations a second of each neighbour
)

// defaults of a scenario.
type defaults struct {
	rate              int64
	clients, entities int
}

func (s Scenario) defaults() defaults {
	switch s {
	case Hot:
		return defaults{clients: 64, entities: 1}
	case Spread:
		return defaults{clients: 64, entities: 1000}
	case LLM:
		return defaults{clients: 64, entities: 64}
	case Attack:
		return defaults{rate: 5000, clients: 256, entities: 20}
	default:
		return defaults{clients: 1, entities: 256}
	}
}

// Validate reports the first option that cannot be accepted, as an
// [*OptionError]. It does not look at API.
func (o Options) Validate() error {
	_, err := o.withDefaults()
	return err
}

// withDefaults checks o and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if !slices.Contains(Scenarios(), o.Scenario) {
		return o, &OptionError{"scenario", string(o.Scenario), fmt.Sprintf("give one of %v", Scenarios())}
	}
	d := o.Scenario.defaults()
	o.Duration = cmp.Or(o.Duration, 10*time.Second)
	o.Rate = cmp.Or(o.Rate, d.rate)
	o.Clients = cmp.Or(o.Clients, d.clients)
	o.Limiters = cmp.Or(o.Limiters, 1)
	o.Entities = cmp.Or(o.Entities, d.entities)
	for _, n := range []struct {
		option           string
		value, min, most int64
	}{
		{"rate", o.Rate, 0, maxRate},
		{"clients", int64(o.Clients), 1, maxClients},
		{"limiters", int64(o.Limiters), 1, min(maxLimiters, int64(max(o.Clients, 1)))},
		{"entities", int64(o.Entities), 1, maxEntities},
	} {
		if n.value < n.min || n.value > n.most {
			return o, &OptionError{n.option, strconv.FormatInt(n.value, 10), fmt.Sprintf("give a whole number from %d to %d%s", n.min, n.most, why(n.option))}
		}
	}
	switch {
	case o.Duration < time.Millisecond || o.Duration > maxDuration:
		return o, &OptionError{"duration", o.Duration.String(), "give from 1ms to 24h"}
	case o.WarmUp < 0 || o.WarmUp > maxDuration:
		return o, &OptionError{"warm-up", o.WarmUp.String(), "give from 0s to 24h"}
	case o.Scenario == Hot && o.Entities != 1:
		return o, &OptionError{"entities", strconv.Itoa(o.Entities), "this scenario is about one entity: choose spread for more"}
	case o.Scenario == Attack && o.Raw:
		return o, &OptionError{"raw", "true", "this scenario runs bare writes anyway"}
	case o.Table == "":
		return o, &OptionError{"table", "", "name the table"}
	case o.Scenario == Attack && len(o.Table)+len(bareSuffix) > maxTableName:
		return o, &OptionError{"table", o.Table, "give a shorter name: another table is made with " + bareSuffix + " appended"}
	}
	if err := store.ValidateLimits(o.Limits); err != nil {
		return o, &OptionError{"limit", fmt.Sprint(o.Limits), err.Error()}
	}
	if o.Namespace == "" {
		o.Namespace = fmt.Sprintf("bench-%08x", rand.Uint32())
	}
	if err := store.CheckNamespace(o.Namespace); err != nil {
		return o, &OptionError{"namespace", o.Namespace, err.Error()}
	}
	if o.Now == nil {
		o.Now = time.Now //nolint:forbidigo // the default clock
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// why explains a bound that is not the option's own.
func why(option string) string {
	if option == "limiters" {
		return ", no more than there are clients"
	}
	return ""
}
