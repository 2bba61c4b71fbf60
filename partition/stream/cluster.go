package stream

import "fmt"

const (
	clusterPasses = 5
	// clustersEach is the least number of clusters in a partition: enough for METIS to divide them evenly.
	clustersEach = 32
)

// clusters returns a label for each vertex; vertices of one label are a cluster. At first each vertex is a
// cluster. In each pass a vertex joins the cluster that most of its in-neighbours are in, unless the cluster
// is full (Meyerhenke et al., section 3.1). A label is one of the cluster's first vertices.
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
	edges := make([]int32, s.Vertices) // into the vertex at hand, from each cluster
	var near []int32                   // the clusters with edges
	for pass := range clusterPasses {
		moved := 0
		err := s.pass(fmt.Sprintf("clustering, pass %d", pass+1), func(v int32, sources []int32) {
			near = near[:0]
			for _, u := range sources {
				if u == v {
					continue
				}
				c := label[u]
				if edges[c] == 0 {
					near = append(near, c)
				}
				edges[c]++
			}
			own, added := label[v], sizeOf(int(v))
			best := own
			for _, c := range near {
				better := edges[c] > edges[best] || edges[c] == edges[best] && s.tie(c, pass) > s.tie(best, pass)
				if better && (c == own || size[c]+added <= full) {
					best = c
				}
			}
			for _, c := range near {
				edges[c] = 0
			}
			if best != own {
				label[v] = best
				size[own] -= added
				size[best] += added
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
