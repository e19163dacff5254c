package sim_test

// tends: an aggregator consumes nothing, and writes nothing without need.
func (c *checker) tends(r *write) {
	if r.client == nil || !r.client.follows || r.after == nil || r.other != nil {
		return
	}
	gains := r.before == nil || r.before.count != r.after.count || r.heals()
	for _, name := range names(r.before, r.after) {
		was, _ := r.before.level(name)
		is, _ := r.after.level(name)
		if name == hidden {
			gains = gains || is.tk+1000 > was.tk
			continue
		}
		gains = gains || is.tk > was.tk
		if is.tc != was.tc {
			c.violate("usage", r.at, &r.id, "an aggregator consumed %d of %s", is.tc-was.tc, name)
		}
	}
	if !gains {
		c.violate("P8", r.at, &r.id, "an aggregator wrote for nothing")
	}
}
