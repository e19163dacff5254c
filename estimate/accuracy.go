package estimate

// Accuracy is how far the units of a load may be from what the engine bills, as shares: an
// estimate may be so much too low, or so much too high. Tests hold it.
//
// Several processes lose more races for an item than the model takes into account: for a hot
// bucket, or for a parent, whose limits are nearly used up.
func Accuracy(processes int) (low, high float64) {
	const exact, shared = 0.05, 0.2
	if processes > 1 {
		return shared, exact
	}
	return exact, exact
}
