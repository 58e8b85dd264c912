import Bytes
import EpollLoop
import Histogram
import Platform
import Transports

/// One thread of the load: a loop, the clients on it, and what they are to do.
///
/// Made by the coordinator; from `run` until it returns it belongs to its thread.
final class Worker: LoopTurn, @unchecked Sendable {
    let index: Int
    let events: EventLoop
    let control: LoadControl
    let tally = LoadTally()
    let recorder = LatencyRecorder()
    /// On which its latencies reach the coordinator.
    let exchange = LatencyExchange()
    /// For channels with layers.
    let workspace = FilterWorkspace()
    /// For one write at a time.
    let slices = UnsafeMutableBufferPointer<ByteSlice>.allocate(capacity: 256)
    /// Completed rounds, where the scenario has rounds.
    var rounds: UInt64 = 0
    /// Connections that ended unasked.
    var endedCount = 0
    /// Why the first connection that ended unasked did so, as far as it is known.
    private(set) var firstFailure: String?
    private let driver: any LoadDriver

    init(index: Int, control: LoadControl, driver: any LoadDriver) throws(SystemError) {
        self.index = index
        self.control = control
        self.driver = driver
        events = try EventLoop(name: "load \(index)")
    }

    deinit { slices.deallocate() }

    /// Works until the phase is `over`.
    func run() { events.run(self) }

    func beginTurn(now: UInt64) {
        recorder.isRecording = control.phase == .measuring
    }

    func endOfTurn(now: UInt64) -> UInt64? {
        let deadline = driver.turnEnded(self, now: now)
        control.progress[index].tell(tally, ended: endedCount, rounds: rounds)
        exchange.handOverIfAsked(recorder)
        if control.phase == .over { events.stop() }
        return deadline
    }

    func received(_ client: LoadClient) { driver.received(client, self) }

    func ended(_ client: LoadClient) {
        note(failure: client.failure)
        driver.ended(client, self)
    }

    /// Keeps the reason if it is the first.
    func note(failure: String?) {
        if firstFailure == nil { firstFailure = failure }
    }
}

/// What a worker's connections are to do: the scenario's part of a worker. Called on the worker's thread.
protocol LoadDriver: AnyObject {
    /// Handlers have run: opens connections, publishes. Returns when the next turn must begin at the latest, in milliseconds.
    func turnEnded(_ worker: Worker, now: UInt64) -> UInt64?

    /// The client has read; perhaps a message has come, perhaps it is ready now.
    func received(_ client: LoadClient, _ worker: Worker)

    /// The client's connection has ended.
    func ended(_ client: LoadClient, _ worker: Worker)
}
