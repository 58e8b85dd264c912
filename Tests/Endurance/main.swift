// Programs on the client library that live long, have much or are many; for tests that kill them, watch their memory
// and measure.
//
//   endurance run ADDRESS STORE FIRST       enqueues numbered messages until its input ends, then waits until the
//   outbox is empty endurance follow ADDRESS STORE         the same, slowly; prints a word for each state of the
//   connection endurance authenticate ADDRESS USER PASSWORD    logs in by SCRAM-SHA-256, once more for each line of its
//   input endurance inbox ADDRESS STORE           tells what an inbox has on the disk, until its input ends
//   endurance measure ADDRESS STORE         messages a second with 100 under way: published from memory, and enqueued
//   endurance fill STORE COUNT              enqueues so many messages without a connection
//   endurance drain ADDRESS STORE           opens what is stored, and ends when the server has it
//   endurance crowd ADDRESS COUNT           a tenth of so many clients on one loop, then all: each gets a message
//   endurance soak ADDRESS FOLDER SECONDS PARTS    clients that do all that clients do; between the parts they rest,
//   and stock is taken

import Glibc
import MartletClient

let arguments = CommandLine.arguments
let numbers = arguments.map { Int($0) ?? 0 }
switch (arguments.dropFirst().first, arguments.count) {
case ("run", 5): try await run(try ServerAddress(arguments[2]), arguments[3], numbers[4])
case ("follow", 4): try await follow(try ServerAddress(arguments[2]), arguments[3])
case ("authenticate", 5): try await authenticate(try ServerAddress(arguments[2]), arguments[3], arguments[4])
case ("inbox", 4): try await inbox(try ServerAddress(arguments[2]), arguments[3])
case ("measure", 4): try await measure(try ServerAddress(arguments[2]), arguments[3])
case ("fill", 4): try await fill(arguments[2], numbers[3])
case ("drain", 4): try await drain(try ServerAddress(arguments[2]), arguments[3])
case ("crowd", 4): try await crowd(try ServerAddress(arguments[2]), numbers[3])
case ("soak", 6):
    try await Soak(try ServerAddress(arguments[2]), folder: arguments[3], seconds: Double(arguments[4]) ?? 0, parts: numbers[5])
        .run()
default:
    say("its first lines of source say how it is called")
    exit(2)
}
