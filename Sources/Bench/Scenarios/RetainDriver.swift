import EpollLoop
import MQTTCodec

/// One publisher that sets the retained message of topic after topic.
final class RetainDriver: LoadDriver {
    private let workload: Workload
    private let control: LoadControl
    private let filler: PayloadFiller
    private var opener: ClientOpener
    private var next = 0

    init(_ workload: Workload, maker: ChannelMaker, control: LoadControl, filler: PayloadFiller) {
        self.workload = workload
        self.control = control
        self.filler = filler
        opener = ClientOpener([.publisher(0, workload)], maker: maker, workload: workload)
    }

    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64? {
        switch control.phase {
        case .connecting: _ = opener.proceed(worker)
        case .warming, .measuring: publish(worker)
        case .draining: break
        case .over: opener.clients.first?.end(worker)
        }
        return nil
    }

    func received(_ client: LoadClient, _ worker: Worker) {}

    func ended(_ client: LoadClient, _ worker: Worker) { worker.endedCount += 1 }

    /// At QoS 1 at least: the acknowledgement tells that the broker has it.
    private func publish(_ worker: Worker) {
        guard let client = opener.clients.first else { return }
        let qos = max(workload.qos, .atLeastOnce)
        while next < workload.subscriberCount, client.connection.mayPublish(qos) {
            let topic = Workload.name("bench/retained/\(next % 100)/\(next / 100 % 100)/\(next)")
            let template = PublishTemplate(
                topic: topic, filler: filler, qos: qos, retain: true, version: workload.options.version)
            client.connection.publish(template, stamp: 0)
            next += 1
        }
        client.flush(worker)
    }
}
