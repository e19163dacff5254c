package store

// An Owner is what a bucket item copies from its entity's record.
type Owner struct {
	Cascade     bool
	Parent      string // "" if none
	Generation  int64
	Incarnation string // "" if the entity has no record
}

// Cascades are the policies of the levels for a bucket, in the order of [ConfigKey]. The
// system's level has none.
type Cascades [SwitchLevels]Policy

// Owner is what a bucket is to copy of its entity's record, nil if there is none. The first
// level with a policy overrides the entity's own. An entity without a parent never cascades.
func (c *Cascades) Owner(e *Entity) Owner {
	var o Owner
	if e != nil {
		o = Owner{Cascade: e.Cascade, Parent: e.Parent, Generation: e.Generation, Incarnation: e.Incarnation}
	}
	for _, p := range c {
		if p != Inherit {
			o.Cascade = p == Yes
			break
		}
	}
	o.Cascade = o.Cascade && o.Parent != ""
	return o
}

// Owner is what an item has copied of its entity's record.
func (i *Image) Owner() Owner {
	return Owner{Cascade: i.Cascade, Parent: i.Parent, Generation: i.ParentGeneration, Incarnation: i.Incarnation}
}
