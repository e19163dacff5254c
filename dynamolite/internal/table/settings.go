package table

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/dynamolite/internal/api"
)

// throughputSettings are settings of a table or of a global index that the engine stores and
// describes. They change nothing: a table is always warm, and only the limits of the database
// throttle. The names in JSON are on disk. They are stored because a program that manages tables
// compares what is described with what it wants. It would otherwise change the table again and
// again.
type throughputSettings struct {
	OnDemand *capacityState `json:"on_demand,omitempty"` // the most units; 0: no limit
	Warm     *capacityState `json:"warm,omitempty"`
}

// encrypt stores the key of a table's encryption. The engine encrypts nothing. It makes an ARN of
// whatever names the key, because AWS describes the key by its ARN.
func (s *Schema) encrypt(in *types.SSESpecification) error {
	switch {
	case in == nil:
		return nil
	case in.SSEType != "" && in.SSEType != types.SSETypeKms:
		return api.Invalid("SSEType %s is not supported, only KMS is", in.SSEType)
	case !aws.ToBool(in.Enabled) && in.KMSMasterKeyId != nil:
		return api.Invalid("KMSMasterKeyId is allowed only if Enabled is true")
	case !aws.ToBool(in.Enabled):
		s.encryption = ""
		return nil
	}
	key := aws.ToString(in.KMSMasterKeyId)
	switch {
	case key == "":
		key = "alias/aws/dynamodb" // the key that AWS manages
	case strings.HasPrefix(key, "arn:"):
		s.encryption = key
		return nil
	}
	if !strings.HasPrefix(key, "alias/") {
		key = "key/" + key
	}
	s.encryption = "arn:aws:kms:dynamolite:000000000000:" + key
	return nil
}

// setThroughput stores settings of the table, or of the index with a name. Nil leaves a setting as
// it is.
//
// A maximum needs an on-demand table, and a warm throughput never falls, as AWS documents.
func (s *Schema) setThroughput(index string, most *types.OnDemandThroughput, warm *types.WarmThroughput) error {
	if most == nil && warm == nil {
		return nil
	}
	now := s.settings[index]
	if most != nil {
		if s.Billing != types.BillingModePayPerRequest {
			return api.Invalid("OnDemandThroughput is allowed only if BillingMode is PAY_PER_REQUEST")
		}
		next, err := merged(now.OnDemand, most.MaxReadRequestUnits, most.MaxWriteRequestUnits, "OnDemandThroughput")
		if err != nil {
			return err
		}
		now.OnDemand = next
	}
	if warm != nil {
		next, err := merged(now.Warm, warm.ReadUnitsPerSecond, warm.WriteUnitsPerSecond, "WarmThroughput")
		switch {
		case err != nil:
			return err
		case next != nil && now.Warm != nil && (next.Read < now.Warm.Read || next.Write < now.Warm.Write):
			return api.Invalid("WarmThroughput cannot be decreased")
		}
		now.Warm = next
	}
	if s.settings == nil {
		s.settings = map[string]throughputSettings{}
	}
	s.settings[index] = now
	return nil
}

// merged returns units with those of a request, which may leave one out. Only a maximum may be -1:
// that removes it. Zero stands for "not set" inside, so a request with zero or less is refused.
func merged(now *capacityState, read, write *int64, member string) (*capacityState, error) {
	var next capacityState
	if now != nil {
		next = *now
	}
	for _, unit := range []struct {
		asked *int64
		to    *int64
	}{{read, &next.Read}, {write, &next.Write}} {
		switch removes := member == "OnDemandThroughput" && aws.ToInt64(unit.asked) == -1; {
		case unit.asked == nil:
		case removes:
			*unit.to = 0
		case *unit.asked < 1:
			return nil, api.Invalid("The units of %s must be at least 1", member)
		default:
			*unit.to = *unit.asked
		}
	}
	if next == (capacityState{}) {
		return nil, nil
	}
	return &next, nil
}

// describe returns what the API says of a maximum: -1 is none. A program may set one of the two
// units; the other one is -1 then.
func (p throughputSettings) describe() *types.OnDemandThroughput {
	if p.OnDemand == nil {
		return nil
	}
	units := func(n int64) *int64 {
		if n == 0 {
			n = -1
		}
		return &n
	}
	return &types.OnDemandThroughput{MaxReadRequestUnits: units(p.OnDemand.Read), MaxWriteRequestUnits: units(p.OnDemand.Write)}
}

// describeSettings adds the settings to a table's description.
//
// Local indexes have no throughput of their own, as on AWS.
func (s *Schema) describeSettings(d *types.TableDescription) {
	if s.encryption != "" {
		d.SSEDescription = &types.SSEDescription{Status: types.SSEStatusEnabled, SSEType: types.SSETypeKms, KMSMasterKeyArn: aws.String(s.encryption)}
	}
	p := s.settings[""]
	d.OnDemandThroughput = p.describe()
	if p.Warm != nil {
		d.WarmThroughput = &types.TableWarmThroughputDescription{
			ReadUnitsPerSecond: aws.Int64(p.Warm.Read), WriteUnitsPerSecond: aws.Int64(p.Warm.Write), Status: types.TableStatusActive,
		}
	}
	for i := range d.GlobalSecondaryIndexes {
		g := &d.GlobalSecondaryIndexes[i]
		p := s.settings[*g.IndexName]
		g.OnDemandThroughput = p.describe()
		if p.Warm != nil {
			g.WarmThroughput = &types.GlobalSecondaryIndexWarmThroughputDescription{
				ReadUnitsPerSecond: aws.Int64(p.Warm.Read), WriteUnitsPerSecond: aws.Int64(p.Warm.Write), Status: types.IndexStatusActive,
			}
		}
	}
}

// applySettings changes settings as an UpdateTable asks. It comes after the billing mode, because a
// maximum is allowed on an on-demand table only.
func (u *Update) applySettings(s *Schema) error {
	if err := s.encrypt(u.SSESpecification); err != nil {
		return err
	}
	return s.setThroughput("", u.OnDemandThroughput, u.WarmThroughput)
}
