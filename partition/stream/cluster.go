package stream

import (
	"fmt"
	"slices"
)

const (
	clusterPasses = 5
	// clustersEach is the least number of clusters in a partition: enough for METIS to divide them evenly.
	clustersEach = 32
)

// clusters returns a label for each vertex; vertices of one label are a cluster. At first each vertex is a
// cluster. In each pass a vertex joins the cluster that most of its in-neighbours are in, unless the cluster
// is full (Meyerhenke et al., section 3.1). A label is one of the cluster's first vertices. After the first
// pass, in which most vertices move, all cores look for vertices to move.
//
// The size of a vertex is the largest share that it has of any weight, and a cluster is full if its vertices'
// sizes add up to 1/(clustersEach·K).
func (s *passes) clusters() ([]int32, error) {
	label, size := make([]int32, s.Vertices), make([]float32, s.Vertices)
	sizeOf := s.sizes()
	for v := range label {
		label[v], size[v] = int32(v), sizeOf(v)
	}
	full := float32(1) / float32(clustersEach*s.K)
	// choose makes a function that returns the cluster that v joins in a pass. Each core has its own.
	choose := func(pass int) func(v int32, sources []int32) int32 {
		var near []int32 // the clusters of v's in-neighbours
		return func(v int32, sources []int32) int32 {
			near = near[:0]
			for _, u := range sources {
				if u != v {
					near = append(near, label[u])
				}
			}
			slices.Sort(near)
			own, most, added := label[v], 0, sizeOf(int(v))
			to := own
			for i, j := 0, 1; i < len(near); i, j = j, j+1 {
				c := near[i]
				for ; j < len(near) && near[j] == c; j++ {
				}
				better := j-i > most || j-i == most && s.tie(c, pass) > s.tie(to, pass)
				if better && (c == own || size[c]+added <= full) {
					to, most = c, j-i
				}
			}
			return to
		}
	}
	for pass := range clusterPasses {
		moved, best := 0, choose(pass)
		err := s.passOnAll(fmt.Sprintf("clustering, pass %d", pass+1), func() func(int32, []int32) bool {
			if pass == 0 { // most vertices move, and those behind follow
				return func(int32, []int32) bool { return true }
			}
			best := choose(pass)
			return func(v int32, sources []int32) bool { return best(v, sources) != label[v] }
		}, func(v int32, sources []int32) {
			if to := best(v, sources); to != label[v] {
				size[label[v]] -= sizeOf(int(v))
				size[to] += sizeOf(int(v))
				label[v] = to
				moved++
			}
		})
		if err != nil {
			return nil, err
		}
		if moved < s.Vertices/100 {
			break
		}
	}
	return label, nil
}

// sizes returns the function that gives a vertex's size: its largest share of any weight.
func (s *passes) sizes() func(v int) float32 {
	totals := s.totals()
	return func(v int) (size float32) {
		for c, weight := range s.Weights {
			if w := weight(v); w > 0 {
				size = max(size, float32(w)/float32(totals[c]))
			}
		}
		return size
	}
}

// tie orders clusters with equally many edges, differently in each pass.
func (s *passes) tie(cluster int32, pass int) uint64 {
	return mix(uint64(cluster) ^ mix(s.Seed+uint64(pass)))
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
