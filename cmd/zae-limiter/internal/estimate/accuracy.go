package estimate

// Accuracy is how far the units that [Scenario] estimates may be from what the engine bills, as a
// share: so much too low, or so much too high. Tests hold it, for the mean of some runs: a run of
// few operations differs by chance.
const Accuracy = 0.02

// RatesAccuracy is that of [New], for loads of few effects at once.
const RatesAccuracy = 0.05
