package kernel
import ("testing";"fmt";"math/rand/v2";"weft/tensor")
func TestZZ(t *testing.T) {
	for _, threads := range []int{1,2} {
	mem := tensor.NewMeter()
	team := NewTeam(threads, mem)
	x := mem.New(tensor.Activations, 1<<20, 64)
	for i := range x.Floats() { x.Floats()[i]=1 }
	for range 3 { team.costsOf(x) }
	c := team.costsOf(x)
	for w, n := range sliceColumns { fmt.Printf("threads %d gather %d:", threads, n); for r := 20; r<=28; r++ { fmt.Printf(" %d:%.1fps", r, c.gathered[w][r]*1e12) }; fmt.Println() }
	fmt.Printf("stream:"); for r := 20; r<=28; r++ { fmt.Printf(" %d:%.1fps", r, c.streamed[r]*1e12) }; fmt.Println()
	r := rand.New(rand.NewPCG(1,1))
	for _, v := range []int{1<<16, 1<<17, 1<<18, 1<<20, 1<<22} {
		for _, deg := range []int{15, 100} {
			n := min(v*deg, 1<<24)
			idx := make([]int32, n); for i := range idx { idx[i]=int32(r.IntN(v)) }
			reuse := measureReuse(idx, v)
			a := &CSR{Rows: v, Cols: v, Indices: &tensor.Matrix{Rows:1, Cols: v*deg}, reuse: reuse}
			for _, cols := range []int{64,128,256,512} {
				if 4*v*cols < 16<<20 { continue }
				whole := c.whole(a, cols)
				fmt.Printf("V %d deg %d cols %d x %d MB whole %.3f:", v, deg, cols, 4*v*cols>>20, whole)
				for most := 1<<20; most <= min(32<<20, 4*v*cols/4); most*=2 {
					team.costs = &c
					p := team.pieceSize(a, &tensor.Matrix{Rows: v, Cols: cols}, false, most)
					cost := whole
					if p.columns>0 { cost = c.inPieces(a, cols, p) }
					fmt.Printf(" %d:%.2f(%.1f)", most>>20, cost/whole, float64(4*p.columns*p.sources)/(1<<20))
				}
				fmt.Println()
			}
		}
	}
	team.costs=nil
	mem.Close()
	}
}
