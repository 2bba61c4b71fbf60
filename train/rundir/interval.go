package rundir

import "math"

// Interval is half the width of the 95 % confidence interval of the mean of x, by Student's t distribution
// with n − 1 degrees of freedom: t · deviation / √n. It is NaN for fewer than two numbers.
func Interval(x []float64) float64 {
	_, deviation := MeanAndDeviation(x)
	if len(x) < 2 {
		return math.NaN()
	}
	return student95(len(x)-1) * float64(deviation) / math.Sqrt(float64(len(x)))
}

// student95 is the t between whose negative and itself 95 % of Student's distribution with so many degrees of
// freedom lie. It is the root of equations 26.7.3 and 26.7.4 of Abramowitz and Stegun 1964, with t = √freedom
// · tan θ.
func student95(freedom int) float64 {
	within := func(theta float64) float64 {
		sin, cos := math.Sincos(theta)
		term, sum := 1., 0.
		if freedom%2 == 1 {
			term = cos
		}
		if freedom > 1 {
			sum = term
		}
		for k := 2 + freedom%2; k <= freedom-2; k += 2 {
			term *= float64(k-1) / float64(k) * cos * cos
			sum += term
		}
		if freedom%2 == 1 {
			return 2 / math.Pi * (theta + sin*sum)
		}
		return sin * sum
	}
	low, high := 0., math.Pi/2
	for range 60 {
		if middle := (low + high) / 2; within(middle) < .95 {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Sqrt(float64(freedom)) * math.Tan(low)
}
