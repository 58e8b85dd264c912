// Does the work of one scenario: growth SCENARIO SIZE. Without arguments the names of all. How its instructions grow
// with the size is counted from outside, with callgrind.

let arguments = CommandLine.arguments
if arguments.count == 3, let scenario = GrowthScenario(rawValue: arguments[1]), let size = Int(arguments[2]), size > 0 {
    scenario.run(size)
} else {
    for scenario in GrowthScenario.allCases { print(scenario.rawValue) }
}
