"""Line charts of measurements, as SVG."""


def svg(curves, path, x_label, y_label, low, high):
    """curves: {name: [(x, y)]}, x from 0; y is cut at low."""
    width, height, left, right, bottom = 822, 460, 78, 190, 44
    colours = ["#1b6ca8", "#d1495b", "#edae49", "#66a182", "#5c4d7d", "#8d6b94", "#2e4057", "#b5651d"]
    last = max(t for c in curves.values() for t, _ in c)

    def x(t):
        return left + (width - left - right) * t / last

    def y(a):
        return 20 + (height - bottom - 20) * (high - max(a, low)) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             f'<rect width="{width}" height="{height}" fill="white"/>']
    for k in range(9):
        a = low + (high - low) * k / 8
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(a):.1f}" y2="{y(a):.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y(a) + 4:.1f}" text-anchor="end">{a:.4g}</text>')
    for k in range(6):
        t = last * k / 5
        parts.append(f'<text x="{x(t):.1f}" y="{height - bottom + 18}" text-anchor="middle">{t:.0f}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - 8}" text-anchor="middle">{x_label}</text>')
    parts.append(f'<text x="14" y="{height / 2}" transform="rotate(-90 14 {height / 2})" text-anchor="middle">{y_label}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        c = colours[i % len(colours)]
        points = " ".join(f"{x(t):.1f},{y(a):.1f}" for t, a in curve)
        parts.append(f'<polyline fill="none" stroke="{c}" stroke-width="2" points="{points}"/>')
        parts.append(f'<line x1="{width - right + 10}" x2="{width - right + 34}" y1="{34 + 20 * i}" y2="{34 + 20 * i}" stroke="{c}" stroke-width="3"/>'
                     f'<text x="{width - right + 40}" y="{38 + 20 * i}">{name}</text>')
    parts.append("</svg>")
    with open(path, "w") as f:
        f.write("\n".join(parts) + "\n")
