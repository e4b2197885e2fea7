# Draws a curve in the terminal from lines `x y`. A column shows the mean of its points.
#   awk -v title="training loss" -v columns=64 -v rows=10 -f curve.awk
{ x[NR] = $1 + 0; y[NR] = $2 + 0 }
END {
  if (NR < 2) exit
  if (!columns) columns = 64
  if (!rows) rows = 10
  first = x[1]; last = x[NR]
  for (i = 1; i <= NR; ++i) {
    c = last > first ? int((x[i] - first) * (columns - 1) / (last - first)) : 0
    sum[c] += y[i]; count[c]++
  }
  low = high = sum[0] / count[0]
  for (c in sum) {
    mean[c] = sum[c] / count[c]
    if (mean[c] < low) low = mean[c]
    if (mean[c] > high) high = mean[c]
  }
  if (high == low) high = low + 1
  for (c in mean) { r = int((high - mean[c]) * (rows - 1) / (high - low) + 0.5); point[r, c] = 1 }
  print "  " title
  for (r = 0; r < rows; ++r) {
    label = r == 0 ? sprintf("%7.3f", high) : r == rows - 1 ? sprintf("%7.3f", low) : "       "
    line = ""
    for (c = 0; c < columns; ++c) line = line ((r, c) in point ? "*" : " ")
    sub(/ +$/, "", line)
    print label " |" line
  }
  rule = ""
  for (c = 0; c < columns; ++c) rule = rule "-"
  print "        +" rule
  printf "         %-*s%s\n", columns - length(last ""), "step " first, last
}
