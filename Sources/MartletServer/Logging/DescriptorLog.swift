import ServerLoops

/// Lines to standard output or standard error.
final class DescriptorLog: LogSink {
    private let descriptor: Int32
    private let layout: LogLayout
    private var buffer = LineBuffer()

    init(descriptor: Int32, layout: LogLayout) {
        self.descriptor = descriptor
        self.layout = layout
    }

    func write(_ line: LogLine) {
        buffer.append(line, as: layout)
        if buffer.isFull { flush() }
    }

    func flush() { buffer.flush(to: descriptor) }
}
