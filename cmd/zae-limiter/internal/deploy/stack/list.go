package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi"
	taggingtypes "github.com/aws/aws-sdk-go-v2/service/resourcegroupstaggingapi/types"

	"github.com/zeroae/zae-limiter-go/store"
)

// A Listing is the result of [Manager.List].
type Listing struct {
	// Stacks are in the order of their user names.
	Stacks []*Stack
	// Problem says that one of the two ways to find stacks failed, so that stacks may be
	// missing. It is nil if both worked.
	Problem error
}

// List finds the stacks of the manager's type in the region. It looks for tagged stacks with the
// tagging API, and through all stacks for tags and for the name prefix of early versions.
// One way is enough: few roles may use both. It fails if both ways fail.
func (m *Manager) List(ctx context.Context) (Listing, error) {
	tagged, err1 := m.tagged(ctx)
	scanned, err2 := m.scan(ctx)
	if errors.Is(err1, ErrNoStacks) && errors.Is(err2, ErrNoStacks) {
		return Listing{}, err2
	}
	if err1 != nil && err2 != nil {
		return Listing{}, fmt.Errorf("list stacks: %w", errors.Join(err1, err2))
	}
	byID := map[string]*Stack{}
	for _, s := range append(tagged, scanned...) {
		byID[s.ID] = s
	}
	l := Listing{Problem: errors.Join(err1, err2)}
	for _, s := range byID {
		l.Stacks = append(l.Stacks, s)
	}
	slices.SortFunc(l.Stacks, func(a, b *Stack) int {
		return cmp.Or(cmp.Compare(a.UserName(), b.UserName()), cmp.Compare(a.Name, b.Name))
	})
	return l, nil
}

// tagged finds stacks with the tagging API, which lags behind CloudFormation: a stack that
// it still has may be deleted.
func (m *Manager) tagged(ctx context.Context) ([]*Stack, error) {
	in := &resourcegroupstaggingapi.GetResourcesInput{
		ResourceTypeFilters: []string{"cloudformation:stack"},
		TagFilters:          []taggingtypes.TagFilter{{Key: aws.String(TagManagedBy), Values: []string{ManagedBy}}},
	}
	var found []*Stack
	for pages := resourcegroupstaggingapi.NewGetResourcesPaginator(m.o.Clients.Tagging, in); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, translate("find stacks by their tags", err)
		}
		for _, r := range page.ResourceTagMappingList {
			s, err := m.Find(ctx, aws.ToString(r.ResourceARN))
			if errors.Is(err, store.ErrNotFound) || err == nil && (s.Status == "DELETE_COMPLETE" || !s.isOf(m.o.Type)) {
				continue
			}
			if err != nil {
				return nil, err
			}
			found = append(found, s)
		}
	}
	return found, nil
}

// scan looks at every stack of the region.
func (m *Manager) scan(ctx context.Context) ([]*Stack, error) {
	var found []*Stack
	for in := (&cloudformation.DescribeStacksInput{}); ; {
		page, err := ask(ctx, m, m.cf.DescribeStacks, in)
		if err != nil {
			return nil, translate("look through the stacks", err)
		}
		for i := range page.Stacks {
			if s := stackOf(&page.Stacks[i]); s.isOf(m.o.Type) {
				found = append(found, s)
			}
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			return found, nil
		}
	}
}
