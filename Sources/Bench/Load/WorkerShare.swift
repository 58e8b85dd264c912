/// Which of a workload's clients are one worker's: every n-th.
struct WorkerShare {
    let publishers: [Int]
    let subscribers: [Int]

    init(_ workload: Workload, worker: Int, of count: Int) {
        publishers = stride(from: worker, to: workload.publisherCount, by: count).map { $0 }
        subscribers = stride(from: worker, to: workload.subscriberCount, by: count).map { $0 }
    }
}
