#!/usr/bin/env bash
# title: edits the test script in package.json
# class: C
# fixtures: npm

sed -i 's/node test.js/true/' package.json
