/// A client that publishes, and what: one template for each topic that it goes round.
struct Publisher {
    let client: LoadClient
    private let templates: [PublishTemplate]
    private var next = 0

    init(client: LoadClient, index: Int, workload: Workload, filler: PayloadFiller) {
        self.client = client
        templates = (0..<workload.topicsPerPublisher).map { topic in
            PublishTemplate(
                topic: workload.topic(publisher: index, index: topic), filler: filler, qos: workload.qos,
                version: workload.options.version, publisher: index)
        }
    }

    /// Whether it may put a message out now: its connection is open, its window too, and what it put out before has mostly left.
    var mayPublish: Bool {
        let connection = client.connection
        return connection.outputByteCount <= Self.waitingBytesMax && connection.mayPublish(templates[next].qos)
    }

    /// Puts one message out. To be called only if `mayPublish`.
    mutating func publish(stamp: UInt64) {
        client.connection.publish(templates[next], stamp: stamp)
        if templates.count > 1 { next = next + 1 == templates.count ? 0 : next + 1 }
    }

    private static let waitingBytesMax = 32 << 10
}
