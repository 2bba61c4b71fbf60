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
// is full (Meyerhenke et al., section 3.1). A label is one of the cluster's first vertices.
//
// The size of a vertex is the largest share that it has of any weight, and a cluster is full if its vertices'
// sizes add up to 1/(clustersEach·K).
func (s *passes) clusters() ([]int32, error) {
	c := s.clustering()
	for c.pass = range clusterPasses {
		moved, err := s.clusterPass(c)
		if err != nil {
			return nil, err
		}
		if moved < s.Vertices/100 {
			break
		}
	}
	return c.label, nil
}

// clustering holds which cluster each vertex is in.
type clustering struct {
	label  []int32             // by vertex: its cluster
	size   []float32           // by cluster: the sum of its vertices' sizes
	sizeOf func(v int) float32 // of a vertex
	full   float32             // the largest size that a move may make
	seed   uint64
	pass   int
}

// clustering returns one cluster for each vertex.
func (s *passes) clustering() *clustering {
	c := &clustering{
		label: make([]int32, s.Vertices), size: make([]float32, s.Vertices), sizeOf: s.sizes(),
		full: float32(1) / float32(clustersEach*s.K), seed: s.Seed,
	}
	for v := range c.label {
		c.label[v], c.size[v] = int32(v), c.sizeOf(v)
	}
	return c
}

// clusterPass lets the vertices join other clusters, and returns how many did. In the first pass one core
// looks for vertices to move, as most vertices move and later ones follow. In other passes all cores look.
func (s *passes) clusterPass(c *clustering) (moved int, err error) {
	var near []int32
	err = s.passOnAll(fmt.Sprintf("clustering, pass %d", c.pass+1), func() func(int32, []int32) bool {
		if c.pass == 0 {
			return func(int32, []int32) bool { return true }
		}
		var near []int32
		return func(v int32, sources []int32) bool { return c.best(v, sources, &near) != c.label[v] }
	}, func(v int32, sources []int32) {
		if to := c.best(v, sources, &near); to != c.label[v] {
			c.move(v, to)
			moved++
		}
	})
	return moved, err
}

// best returns the cluster with space for v that most in-neighbours of v are in, or v's own. near is scratch:
// the clusters of the in-neighbours.
func (c *clustering) best(v int32, sources []int32, near *[]int32) int32 {
	list := (*near)[:0]
	for _, u := range sources {
		if u != v {
			list = append(list, c.label[u])
		}
	}
	*near = list
	slices.Sort(list)
	own := c.label[v]
	most := 0
	added := c.sizeOf(int(v))
	to := own
	for i, j := 0, 1; i < len(list); i, j = j, j+1 {
		cluster := list[i]
		for ; j < len(list) && list[j] == cluster; j++ {
		}
		better := j-i > most || j-i == most && c.tie(cluster) > c.tie(to)
		if better && (cluster == own || c.size[cluster]+added <= c.full) {
			to, most = cluster, j-i
		}
	}
	return to
}

// move moves v to another cluster.
func (c *clustering) move(v, to int32) {
	size := c.sizeOf(int(v))
	c.size[c.label[v]] -= size
	c.size[to] += size
	c.label[v] = to
}

// tie orders clusters with equally many edges, differently in each pass.
func (c *clustering) tie(cluster int32) uint64 {
	return mix(uint64(cluster) ^ mix(c.seed+uint64(c.pass)))
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

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
