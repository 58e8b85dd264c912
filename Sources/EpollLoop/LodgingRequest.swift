/// A loop's wish to lodge with the one whose thread this is sent to, and given to `EventLoop.takeIn`.
public struct LodgingRequest: Sendable {
    let guest: EventLoop
    // Sent with the loop, and used by the thread that runs it.
    nonisolated(unsafe) let turn: any LoopTurn
    let number: UInt64
}
