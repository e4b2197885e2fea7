"""ResNet-50 and GoogLeNet in PyTorch, layer by layer as configs/jobs/resnet50.toml and googlenet.toml: peers of bench/gpu.py."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def unit(inputs, outputs, kernel, stride=1, relu=True):
    """Convolution and normalisation."""
    parts = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]
    return nn.Sequential(*parts, nn.ReLU(inplace=True)) if relu else nn.Sequential(*parts)


class Bottleneck(nn.Module):
    def __init__(self, inputs, middle, stride):
        super().__init__()
        outputs = 4 * middle
        self.body = nn.Sequential(unit(inputs, middle, 1), unit(middle, middle, 3, stride), unit(middle, outputs, 1, relu=False))
        self.short = nn.Identity() if inputs == outputs else unit(inputs, outputs, 1, stride, relu=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x), inplace=True)


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        body, inputs = [unit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
        for blocks, middle, stride in ((3, 64, 1), (4, 128, 2), (6, 256, 2), (3, 512, 2)):
            for i in range(blocks):
                body.append(Bottleneck(inputs, middle, stride if i == 0 else 1))
                inputs = 4 * middle
        self.body, self.scores = nn.Sequential(*body), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.scores(self.body(x).mean((2, 3)))


def conv(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2), nn.ReLU(inplace=True))


class Inception(nn.Module):
    """Four branches: 1 x 1; 3 x 3 and 5 x 5, each after a reduction; a projection of the pooled input."""

    def __init__(self, inputs, one, reduce3, three, reduce5, five, pooled):
        super().__init__()
        self.branches = nn.ModuleList([
            conv(inputs, one, 1), nn.Sequential(conv(inputs, reduce3, 1), conv(reduce3, three, 3)),
            nn.Sequential(conv(inputs, reduce5, 1), conv(reduce5, five, 5)), nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pooled, 1))])

    def forward(self, x):
        return torch.cat([b(x) for b in self.branches], 1)


def side_head(inputs):
    return nn.Sequential(nn.AvgPool2d(5, 3, ceil_mode=True), conv(inputs, 128, 1), nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(inplace=True),
                         nn.Dropout(0.7), nn.Linear(1024, 1000))


class GoogLeNet(nn.Module):
    """Returns the scores of the head and of the two side heads."""

    def __init__(self):
        super().__init__()
        pool, norm = lambda: nn.MaxPool2d(3, 2, ceil_mode=True), lambda: nn.LocalResponseNorm(5, 1e-4, 0.75, 1.0)
        self.to_4a = nn.Sequential(
            conv(3, 64, 7, 2), pool(), norm(), conv(64, 64, 1), conv(64, 192, 3), norm(), pool(), Inception(192, 64, 96, 128, 16, 32, 32),
            Inception(256, 128, 128, 192, 32, 96, 64), pool(), Inception(480, 192, 96, 208, 16, 48, 64))
        self.to_4d = nn.Sequential(Inception(512, 160, 112, 224, 24, 64, 64), Inception(512, 128, 128, 256, 24, 64, 64),
                                   Inception(512, 112, 144, 288, 32, 64, 64))
        self.to_5b = nn.Sequential(Inception(528, 256, 160, 320, 32, 128, 128), pool(), Inception(832, 256, 160, 320, 32, 128, 128),
                                   Inception(832, 384, 192, 384, 48, 128, 128))
        self.side1, self.side2 = side_head(512), side_head(528)
        self.head = nn.Sequential(nn.Dropout(0.4), nn.Linear(1024, 1000))

    def forward(self, x):
        a = self.to_4a(x)
        d = self.to_4d(a)
        return self.head(self.to_5b(d).mean((2, 3))), self.side1(a), self.side2(d)
