package serve

// SpareHeap and CollectLess are shown to tests.
const SpareHeap = spareHeap

var CollectLess = collectLess
